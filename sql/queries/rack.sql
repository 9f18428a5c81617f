-- name: RackCount :one
-- Matches of RackList before paging.
SELECT count(*)::integer
FROM rack
WHERE deleted_at IS NULL
    AND coalesce(name, '') ~ ALL (@names::text[])
    AND coalesce(manufacturer, '') ~ ALL (@manufacturers::text[])
    AND coalesce(model, '') ~ ALL (@models::text[])
    AND (NOT @with_external_id::boolean OR external_id IS NOT NULL);

-- name: RackGetByExternalID :one
SELECT * FROM rack WHERE external_id = @external_id AND deleted_at IS NULL;

-- name: RackGetByID :one
SELECT * FROM rack WHERE id = @id AND deleted_at IS NULL;

-- name: RackInsert :exec
INSERT INTO rack (id, name, manufacturer, serial, model, description, region, datacenter, room, position, external_id,
    nvl_domain_id, health)
VALUES (@id, @name, sqlc.narg('manufacturer'), sqlc.narg('serial'), sqlc.narg('model'), sqlc.narg('description'),
    @region, @datacenter, @room, @position, sqlc.narg('external_id'), sqlc.narg('nvl_domain_id'), sqlc.narg('health'));

-- name: RackIDTaken :one
-- Whether an id is in use, and if only by a tombstone.
SELECT deleted_at IS NOT NULL AS deleted FROM rack WHERE id = @id;

-- name: RackList :many
-- Live racks. Patterns are regular expressions, all of which must match; an empty array matches all. Without an order
-- of its own a list goes by name through rack_name_idx.
SELECT *
FROM rack
WHERE deleted_at IS NULL
    AND coalesce(name, '') ~ ALL (@names::text[])
    AND coalesce(manufacturer, '') ~ ALL (@manufacturers::text[])
    AND coalesce(model, '') ~ ALL (@models::text[])
    AND (NOT @with_external_id::boolean OR external_id IS NOT NULL)
ORDER BY name, id
LIMIT @max OFFSET @skip;

-- name: RackListOrdered :many
-- As RackList in another order. Missing values come last going up and first going down.
SELECT *
FROM rack
WHERE deleted_at IS NULL
    AND coalesce(name, '') ~ ALL (@names::text[])
    AND coalesce(manufacturer, '') ~ ALL (@manufacturers::text[])
    AND coalesce(model, '') ~ ALL (@models::text[])
    AND (NOT @with_external_id::boolean OR external_id IS NOT NULL)
ORDER BY
    CASE WHEN NOT @descending::boolean THEN
        CASE @field::text WHEN 'name' THEN name WHEN 'manufacturer' THEN manufacturer WHEN 'model' THEN model END END ASC,
    CASE WHEN @descending THEN
        CASE @field WHEN 'name' THEN name WHEN 'manufacturer' THEN manufacturer WHEN 'model' THEN model END END DESC,
    id
LIMIT @max OFFSET @skip;

-- name: RackListBySerial :many
-- Live racks with a serial number, of one manufacturer when it is given.
SELECT * FROM rack
WHERE serial = @serial AND (sqlc.narg('manufacturer')::text IS NULL OR manufacturer = sqlc.narg('manufacturer'))
    AND deleted_at IS NULL;

-- name: RackListByScope :many
-- Live racks that a scope may mean, by any of their identifiers.
SELECT id, name, external_id FROM rack
WHERE deleted_at IS NULL
    AND (id = ANY (@ids::uuid[]) OR name = ANY (@names::text[]) OR external_id = ANY (@external_ids::text[]));

-- name: RackLockMany :many
-- Locks racks in the order of their ids, so that submissions that share racks queue up instead of deadlocking.
SELECT id FROM rack WHERE id = ANY (@ids::uuid[]) AND deleted_at IS NULL ORDER BY id FOR NO KEY UPDATE;

-- name: RackPhases :many
-- Phases of the components that count for each rack's operation status.
SELECT rack_id, phase, count(*)::integer AS components
FROM component
WHERE rack_id = ANY (@rack_ids::uuid[]) AND deleted_at IS NULL AND type IN ('Compute', 'NVSwitch', 'PowerShelf')
GROUP BY rack_id, phase;

-- name: RackTaskStats :many
-- Active tasks of each rack.
SELECT rack_id, state, count(*)::integer AS tasks
FROM task
WHERE rack_id = ANY (@rack_ids::uuid[]) AND state IN ('waiting', 'pending', 'running')
GROUP BY rack_id, state;
