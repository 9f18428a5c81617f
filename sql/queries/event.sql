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

-- name: EventSnapshot :one
-- The oldest transaction that is still open and the first one that has not begun.
SELECT pg_snapshot_xmin(s)::text::bigint AS oldest_open, pg_snapshot_xmax(s)::text::bigint AS next
FROM pg_current_snapshot() AS s;
