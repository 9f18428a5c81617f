// Package exec carries tasks out: River workers that drive the steps of a frozen plan through the hardware.
//
// Our rows are the truth and River's jobs are wake-ups: a job carries ids and an epoch, and a worker does what its row
// says is due, or nothing. A worker drives a step action by action and commits what it learned after each; waits under
// ten seconds pass inside the job, longer ones are stored with their due time and end it. The worker that ends a stage
// opens the next one in the same transaction and goes on with it; the other steps of that stage get jobs of their own.
//
// A node stamps the steps it drives. When it dies, another node (or its own next life) gives them a new epoch and new
// jobs; whatever the old driver still wants to record carries the old epoch and finds no row. A step recorded as ended
// never runs again. Hardware calls are at least once, except those that must not be sent twice: for them the intent is
// committed before the call, and an intent without outcome is settled by reading the device or given up as unknown.
//
// When the database is away, workers keep what they know and try again until it is back; they start no new action.
package exec
