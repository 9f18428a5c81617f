-- name: NodeDelete :exec
DELETE FROM node WHERE incarnation = @incarnation;

-- name: NodeHeartbeat :execrows
-- No row: the node was declared dead and its work taken over.
UPDATE node SET heartbeat_at = now() WHERE incarnation = @incarnation;

-- name: NodeInsert :exec
INSERT INTO node (incarnation, node_id, host, version) VALUES (@incarnation, @node_id, @host, @version);

-- name: NodeReap :many
-- Removes the nodes that have missed their heartbeats, and other lives of one node, and says which they were. Their
-- work is taken over in the same transaction.
DELETE FROM node
WHERE incarnation <> @self AND (heartbeat_at < now() - @stale_after::interval OR node_id = @node_id)
RETURNING incarnation;

-- name: LeaderGiveUp :exec
-- Ends the River leadership of lives that are over, so that a new leader is elected at once instead of after its term.
DELETE FROM river_leader WHERE leader_id = ANY (@leaders::text[]);
