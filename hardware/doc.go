// Package hardware is the vocabulary the rest of Flow uses to speak of devices: component types, power and
// firmware states, targets, and one small interface for each capability an adapter may have.
//
// Adapters live in sub-packages (sim among them) and import this package; this package imports nothing of ours
// and knows nothing of tasks, rules or the database. An adapter reports facts: what was done, what was refused,
// what is not known. It never decides what happens next, and it never retries: that is the engine's work.
package hardware
