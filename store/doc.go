// Package store owns the way to PostgreSQL: the pools, transactions, the migrations and, in db, the generated queries.
//
// It decides nothing about racks or tasks and imports nothing of ours but the SQL itself. When the database goes away
// its calls fail with an error for which Unavailable is true; nothing here retries or caches, so that callers can tell
// "not done" from "done".
package store
