-- name: EventHorizon :one
-- The newest event id handed out. Not transactional: the transaction that holds it may still be open.
SELECT coalesce(pg_sequence_last_value('event_id_seq'), 0)::bigint AS last_id;

-- name: EventList :many
-- Events after one id up to another, oldest first.
SELECT * FROM event WHERE id > @after_id AND id <= @up_to_id ORDER BY id LIMIT @max;

-- name: EventListByRacks :many
SELECT * FROM event WHERE rack_id = ANY (@rack_ids::uuid[]) AND id > @after_id AND id <= @up_to_id ORDER BY id LIMIT @max;

-- name: EventListByTasks :many
SELECT * FROM event WHERE task_id = ANY (@task_ids::uuid[]) AND id > @after_id AND id <= @up_to_id ORDER BY id LIMIT @max;

-- name: EventNotify :exec
-- Wakes the watchers of every node.
SELECT pg_notify('flow_event', '');

-- name: EventMark :one
-- A transaction id later than that of every transaction that has taken an event id so far. A snapshot's own upper end
-- would not do: it is one past the last transaction that has completed, and there may be open ones above it.
SELECT pg_current_xact_id()::text::bigint AS mark;

-- name: EventOldestOpen :one
-- The oldest transaction that is still open, or the next one.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest;
