-- name: RackCount :one
-- Matches of RackList before paging.
SELECT count(*)::integer
FROM rack
WHERE deleted_at IS NULL
    AND (sqlc.narg('names')::text[] IS NULL OR name = ANY (sqlc.narg('names')))
    AND (sqlc.narg('manufacturers')::text[] IS NULL OR manufacturer = ANY (sqlc.narg('manufacturers'))
        OR manufacturer IS NULL AND '' = ANY (sqlc.narg('manufacturers')))
    AND (sqlc.narg('models')::text[] IS NULL OR model = ANY (sqlc.narg('models'))
        OR model IS NULL AND '' = ANY (sqlc.narg('models')))
    AND (cardinality(@name_patterns::text[]) = 0 OR name ~ ALL (@name_patterns))
    AND (cardinality(@manufacturer_patterns::text[]) = 0 OR coalesce(manufacturer, '') ~ ALL (@manufacturer_patterns))
    AND (cardinality(@model_patterns::text[]) = 0 OR coalesce(model, '') ~ ALL (@model_patterns))
    AND (NOT @with_external_id::boolean OR external_id IS NOT NULL);

-- name: RackDelete :exec
UPDATE rack SET deleted_at = now(), updated_at = now() WHERE id = @id AND deleted_at IS NULL;

-- name: RackGetByExternalID :one
SELECT * FROM rack WHERE external_id = @external_id AND deleted_at IS NULL;

-- name: RackGetByID :one
SELECT * FROM rack WHERE id = @id AND deleted_at IS NULL;

-- name: RackHold :one
-- Holds a live rack against being deleted until the transaction ends; submissions and other holders go on.
SELECT id FROM rack WHERE id = @id AND deleted_at IS NULL FOR KEY SHARE;

-- name: RackIDTaken :one
-- Whether an id is in use, and if only by a tombstone.
SELECT (deleted_at IS NOT NULL)::boolean AS deleted FROM rack WHERE id = @id;

-- name: RackInsert :exec
INSERT INTO rack (id, name, manufacturer, serial, model, description, region, datacenter, room, position, external_id,
    nvl_domain_id, health)
VALUES (@id, @name, sqlc.narg('manufacturer'), sqlc.narg('serial'), sqlc.narg('model'), sqlc.narg('description'),
    @region, @datacenter, @room, @position, sqlc.narg('external_id'), sqlc.narg('nvl_domain_id'), sqlc.narg('health'));

-- name: RackList :many
-- Live racks. A list of values that is null allows all; every pattern, a regular expression, must match; a missing
-- value counts as empty text. Missing values come last going up and first going down. The planner must see the
-- parameters: only then are the CASEs gone before it looks for an index, and a list by name goes through
-- rack_name_idx.
SELECT *
FROM rack
WHERE deleted_at IS NULL
    AND (sqlc.narg('names')::text[] IS NULL OR name = ANY (sqlc.narg('names')))
    AND (sqlc.narg('manufacturers')::text[] IS NULL OR manufacturer = ANY (sqlc.narg('manufacturers'))
        OR manufacturer IS NULL AND '' = ANY (sqlc.narg('manufacturers')))
    AND (sqlc.narg('models')::text[] IS NULL OR model = ANY (sqlc.narg('models'))
        OR model IS NULL AND '' = ANY (sqlc.narg('models')))
    AND (cardinality(@name_patterns::text[]) = 0 OR name ~ ALL (@name_patterns))
    AND (cardinality(@manufacturer_patterns::text[]) = 0 OR coalesce(manufacturer, '') ~ ALL (@manufacturer_patterns))
    AND (cardinality(@model_patterns::text[]) = 0 OR coalesce(model, '') ~ ALL (@model_patterns))
    AND (NOT @with_external_id::boolean OR external_id IS NOT NULL)
ORDER BY
    CASE WHEN NOT @descending::boolean THEN
        CASE @field::text WHEN 'name' THEN name WHEN 'manufacturer' THEN manufacturer WHEN 'model' THEN model END END ASC,
    CASE WHEN @descending THEN
        CASE @field WHEN 'name' THEN name WHEN 'manufacturer' THEN manufacturer WHEN 'model' THEN model END END DESC,
    id
LIMIT @max OFFSET @skip;

-- name: RackListByDomains :many
-- Live member racks.
SELECT * FROM rack WHERE nvl_domain_id = ANY (@domain_ids::uuid[]) AND deleted_at IS NULL ORDER BY name, id;

-- name: RackListByIDs :many
-- Live racks, in no order.
SELECT * FROM rack WHERE id = ANY (@ids::uuid[]) AND deleted_at IS NULL;

-- name: RackListByScope :many
-- Live racks that a scope may mean, by any of their identifiers.
SELECT id, name, external_id FROM rack
WHERE deleted_at IS NULL
    AND (id = ANY (@ids::uuid[]) OR name = ANY (@names::text[]) OR external_id = ANY (@external_ids::text[]));

-- name: RackListBySerial :many
-- Live racks with a serial number, of one manufacturer when it is given.
SELECT * FROM rack
WHERE serial = @serial AND (sqlc.narg('manufacturer')::text IS NULL OR manufacturer = sqlc.narg('manufacturer'))
    AND deleted_at IS NULL;

-- name: RackListTaken :many
-- Racks in the way of a new one: whoever has its id, even a tombstone, and live ones with its external id or serial
-- number.
SELECT id, manufacturer, serial, external_id, (deleted_at IS NOT NULL)::boolean AS deleted FROM rack
WHERE id = @id
    OR deleted_at IS NULL AND external_id = sqlc.narg('external_id')
    OR deleted_at IS NULL AND manufacturer = sqlc.narg('manufacturer') AND serial = sqlc.narg('serial');

-- name: RackLock :one
-- Holds a rack, tombstones too, against every other writer, also those that add to it.
SELECT * FROM rack WHERE id = @id FOR UPDATE;

-- name: RackLockMany :many
-- Locks racks, tombstones too, in the order of their ids, so that those who share racks queue up instead of
-- deadlocking: submissions, and whoever moves components or changes membership.
SELECT id, nvl_domain_id, rack_group_id, waiting, deleted_at FROM rack
WHERE id = ANY (@ids::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: RackListOverdue :many
-- The racks that tasks wait for whose time in the queue was over before a time.
SELECT id FROM rack
WHERE waiting > 0 AND EXISTS (SELECT FROM task
    WHERE task.rack_id = rack.id AND task.state = 'waiting' AND task.finished_at IS NULL AND task.queue_expires_at < @before)
LIMIT 100; -- the rest at the next heartbeat

-- name: RackListWaiting :many
-- The racks that tasks wait for.
SELECT id FROM rack WHERE waiting > 0;

-- name: RackPatch :exec
-- Writes what clients may change of a rack that the caller holds.
UPDATE rack
SET name = @name, model = sqlc.narg('model'), description = sqlc.narg('description'), region = @region,
    datacenter = @datacenter, room = @room, position = @position, updated_at = now()
WHERE id = @id;

-- name: RackPhases :many
-- Phases of the components that count for each rack's operation status.
SELECT rack_id, phase, count(*)::integer AS components
FROM component
WHERE rack_id = ANY (@rack_ids::uuid[]) AND deleted_at IS NULL AND type IN ('Compute', 'NVSwitch', 'PowerShelf')
GROUP BY rack_id, phase;

-- name: RackPurge :exec
DELETE FROM rack WHERE id = @id AND deleted_at IS NOT NULL;

-- name: RackRestore :exec
UPDATE rack SET deleted_at = NULL, updated_at = now() WHERE id = @id;

-- name: RackSetDomain :exec
UPDATE rack SET nvl_domain_id = sqlc.narg('domain_id'), updated_at = now() WHERE id = ANY (@ids::uuid[]);

-- name: RackTaskStats :many
-- Active tasks of each rack.
SELECT rack_id, state, count(*)::integer AS tasks
FROM task
WHERE rack_id = ANY (@rack_ids::uuid[]) AND finished_at IS NULL
GROUP BY rack_id, state;
