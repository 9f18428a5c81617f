-- name: ComponentCount :one
-- Matches of ComponentPage before paging.
SELECT count(*)::integer
FROM component
WHERE deleted_at IS NULL
    AND (sqlc.narg('names')::text[] IS NULL OR name = ANY (sqlc.narg('names')))
    AND (sqlc.narg('manufacturers')::text[] IS NULL OR manufacturer = ANY (sqlc.narg('manufacturers'))
        OR manufacturer IS NULL AND '' = ANY (sqlc.narg('manufacturers')))
    AND (sqlc.narg('models')::text[] IS NULL OR model = ANY (sqlc.narg('models'))
        OR model IS NULL AND '' = ANY (sqlc.narg('models')))
    AND (sqlc.narg('types')::text[] IS NULL OR type = ANY (sqlc.narg('types')))
    AND (cardinality(@name_likes::text[]) = 0 OR lower(name) LIKE ALL (@name_likes))
    AND (cardinality(@name_patterns::text[]) = 0 OR name ~ ALL (@name_patterns))
    AND (cardinality(@manufacturer_patterns::text[]) = 0 OR coalesce(manufacturer, '') ~ ALL (@manufacturer_patterns))
    AND (cardinality(@model_patterns::text[]) = 0 OR coalesce(model, '') ~ ALL (@model_patterns))
    AND (sqlc.narg('scope_ids')::uuid[] IS NULL OR id = ANY (sqlc.narg('scope_ids')))
    AND (sqlc.narg('scope_racks')::uuid[] IS NULL OR rack_id = ANY (sqlc.narg('scope_racks')))
    AND (sqlc.narg('typed_racks')::uuid[] IS NULL OR (rack_id, type) IN (
        SELECT unnest(sqlc.narg('typed_racks')::uuid[]), unnest(@typed_types::text[])));

-- name: ComponentDelete :execrows
-- Makes a live component a tombstone. Its BMCs stay with it until somebody else claims their MACs.
UPDATE component SET deleted_at = now(), updated_at = now() WHERE id = @id AND deleted_at IS NULL;

-- name: ComponentDeleteByRack :exec
-- Deletes the live components of a rack at the moment the rack is deleted: now() is the transaction's.
UPDATE component SET deleted_at = now(), updated_at = now() WHERE rack_id = @rack_id AND deleted_at IS NULL;

-- name: ComponentExpectations :many
-- What a site controller is told of live components before they arrive: a row for each BMC, and one for a component that
-- has none.
SELECT component.id, component.type, component.name, component.rack_id, component.external_id, component.manufacturer,
    component.serial, component.model, component.slot_id, component.tray_idx, component.host_id,
    rack.external_id AS rack_external_id, bmc.mac, bmc.type AS bmc_type, bmc.ip
FROM component
    LEFT JOIN rack ON rack.id = component.rack_id
    LEFT JOIN bmc ON bmc.component_id = component.id
WHERE component.deleted_at IS NULL AND component.id = ANY (@ids::uuid[])
ORDER BY component.id, bmc.mac;

-- name: ComponentInsertMany :exec
-- Empty text stands for "not known" in the optional columns.
INSERT INTO component (id, type, name, manufacturer, serial, model, description, firmware_version, slot_id, tray_idx,
    host_id, rack_id, external_id, health)
SELECT id, type, name, nullif(manufacturer, ''), nullif(serial, ''), nullif(model, ''), nullif(description, ''),
    firmware_version, slot_id, tray_idx, host_id, sqlc.narg('rack_id'), nullif(external_id, ''), nullif(health, '')
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@types::text[]) AS type, unnest(@names::text[]) AS name,
    unnest(@manufacturers::text[]) AS manufacturer, unnest(@serials::text[]) AS serial,
    unnest(@models::text[]) AS model, unnest(@descriptions::text[]) AS description,
    unnest(@firmware_versions::text[]) AS firmware_version, unnest(@slot_ids::integer[]) AS slot_id,
    unnest(@tray_idxs::integer[]) AS tray_idx, unnest(@host_ids::integer[]) AS host_id,
    unnest(@external_ids::text[]) AS external_id, unnest(@healths::bytea[]) AS health) AS input;

-- name: ComponentLeakTasks :many
-- The newest task of each component that answers a leak in it.
SELECT DISTINCT ON (component_id) named.component_id::uuid AS component_id, named.state
FROM (SELECT unnest(task_plan.component_ids) AS component_id, task.state, task.created_at, task.id
    FROM task_plan JOIN task ON task.id = task_plan.task_id
    WHERE task_plan.answers_leak AND task_plan.component_ids && @component_ids::uuid[]) AS named
WHERE named.component_id = ANY (@component_ids)
ORDER BY component_id, named.created_at DESC, named.id DESC;

-- name: ComponentListByAnyID :many
-- Components that a client may mean by one text: live ones by external id or BMC MAC, any by Flow's own id.
SELECT component.id, false AS by_id FROM component
WHERE component.external_id = @external_id AND component.deleted_at IS NULL
UNION ALL
SELECT component.id, false FROM component JOIN bmc ON bmc.component_id = component.id
WHERE bmc.mac = @mac::macaddr AND component.deleted_at IS NULL
UNION ALL
SELECT component.id, true FROM component WHERE component.id = @id;

-- name: ComponentListByIDs :many
-- Live components, in no order.
SELECT * FROM live_component WHERE id = ANY (@ids::uuid[]);

-- name: ComponentListByRacks :many
-- Live components of racks, in no order: as with BMCs, the reader sorts those of each rack.
SELECT * FROM live_component WHERE rack_id = ANY (@rack_ids::uuid[]);

-- name: ComponentListByScope :many
-- Live components that a scope may mean, each with the identifier it goes by: its id, its external id or a MAC of its.
SELECT component.id, component.type, component.id::text AS identifier, 'id' AS kind
FROM component WHERE component.id = ANY (@ids::uuid[]) AND component.deleted_at IS NULL
UNION ALL
SELECT component.id, component.type, component.external_id, 'external id'
FROM component WHERE component.external_id = ANY (@external_ids::text[]) AND component.deleted_at IS NULL
UNION ALL
SELECT component.id, component.type, bmc.mac::text, 'mac'
FROM bmc JOIN component ON component.id = bmc.component_id
WHERE bmc.mac = ANY (@macs::macaddr[]) AND component.deleted_at IS NULL;

-- name: ComponentListBySerial :many
-- Live components with a serial number, of one manufacturer when it is given.
SELECT * FROM component
WHERE serial = @serial AND (sqlc.narg('manufacturer')::text IS NULL OR manufacturer = sqlc.narg('manufacturer'))
    AND deleted_at IS NULL;

-- name: ComponentListByTombstone :many
-- Components that were deleted together with their rack.
SELECT * FROM component WHERE rack_id = @rack_id AND deleted_at = @deleted_at ORDER BY id;

-- name: ComponentListTaken :many
-- Components in the way of new ones: whoever has one of the ids, even a tombstone, and live ones with one of the
-- external ids, or with one of the manufacturers and serial numbers that belong together. A look-up a key: whatever
-- the planner believes of the table, it has nothing but an index for that.
SELECT component.id, component.type, component.manufacturer, component.serial, component.external_id,
    (component.deleted_at IS NOT NULL)::boolean AS deleted
FROM unnest(@ids::uuid[]) AS wanted CROSS JOIN LATERAL (SELECT * FROM component WHERE component.id = wanted OFFSET 0) AS component
UNION ALL
SELECT component.id, component.type, component.manufacturer, component.serial, component.external_id, false
FROM unnest(@external_ids::text[]) AS wanted
    CROSS JOIN LATERAL (SELECT * FROM component WHERE component.external_id = wanted AND deleted_at IS NULL OFFSET 0) AS component
UNION ALL
SELECT component.id, component.type, component.manufacturer, component.serial, component.external_id, false
FROM (SELECT unnest(@manufacturers::text[]) AS manufacturer, unnest(@serials::text[]) AS serial) AS wanted
    CROSS JOIN LATERAL (SELECT * FROM component WHERE component.manufacturer = wanted.manufacturer
        AND component.serial = wanted.serial AND deleted_at IS NULL OFFSET 0) AS component;

-- name: ComponentLock :one
-- Holds a component, tombstones too, against every other writer.
SELECT * FROM component WHERE id = @id FOR UPDATE;

-- name: ComponentLockByRack :many
-- Holds the live components of a rack against every other writer.
SELECT * FROM component WHERE rack_id = @rack_id AND deleted_at IS NULL ORDER BY id FOR NO KEY UPDATE;

-- name: ComponentPage :many
-- Which live components are on a page; what they are is read afterwards, since this can do without the table. Filters and
-- order are those of RackList; name_likes are patterns for LIKE in lower case. A scope is a list of ids or of racks;
-- where only some types of a rack are meant, typed_racks and typed_types hold every pair that is.
SELECT id
FROM component
WHERE deleted_at IS NULL
    AND (sqlc.narg('names')::text[] IS NULL OR name = ANY (sqlc.narg('names')))
    AND (sqlc.narg('manufacturers')::text[] IS NULL OR manufacturer = ANY (sqlc.narg('manufacturers'))
        OR manufacturer IS NULL AND '' = ANY (sqlc.narg('manufacturers')))
    AND (sqlc.narg('models')::text[] IS NULL OR model = ANY (sqlc.narg('models'))
        OR model IS NULL AND '' = ANY (sqlc.narg('models')))
    AND (sqlc.narg('types')::text[] IS NULL OR type = ANY (sqlc.narg('types')))
    AND (cardinality(@name_likes::text[]) = 0 OR lower(name) LIKE ALL (@name_likes))
    AND (cardinality(@name_patterns::text[]) = 0 OR name ~ ALL (@name_patterns))
    AND (cardinality(@manufacturer_patterns::text[]) = 0 OR coalesce(manufacturer, '') ~ ALL (@manufacturer_patterns))
    AND (cardinality(@model_patterns::text[]) = 0 OR coalesce(model, '') ~ ALL (@model_patterns))
    AND (sqlc.narg('scope_ids')::uuid[] IS NULL OR id = ANY (sqlc.narg('scope_ids')))
    AND (sqlc.narg('scope_racks')::uuid[] IS NULL OR rack_id = ANY (sqlc.narg('scope_racks')))
    AND (sqlc.narg('typed_racks')::uuid[] IS NULL OR (rack_id, type) IN (
        SELECT unnest(sqlc.narg('typed_racks')::uuid[]), unnest(@typed_types::text[])))
ORDER BY
    CASE WHEN NOT @descending::boolean THEN
        CASE @field::text WHEN 'name' THEN name WHEN 'manufacturer' THEN manufacturer WHEN 'model' THEN model
            WHEN 'type' THEN type END END ASC,
    CASE WHEN @descending THEN
        CASE @field WHEN 'name' THEN name WHEN 'manufacturer' THEN manufacturer WHEN 'model' THEN model
            WHEN 'type' THEN type END END DESC,
    id
LIMIT @max OFFSET @skip;

-- name: ComponentPatchMany :exec
-- Writes what clients may change of components that the caller holds.
UPDATE component
SET firmware_version = input.firmware_version, description = nullif(input.description, ''), slot_id = input.slot_id,
    tray_idx = input.tray_idx, host_id = input.host_id,
    rack_id = nullif(input.rack_id, '00000000-0000-0000-0000-000000000000'), updated_at = now()
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@firmware_versions::text[]) AS firmware_version,
    unnest(@descriptions::text[]) AS description, unnest(@slot_ids::integer[]) AS slot_id,
    unnest(@tray_idxs::integer[]) AS tray_idx, unnest(@host_ids::integer[]) AS host_id,
    unnest(@rack_ids::uuid[]) AS rack_id) AS input
WHERE component.id = input.id;

-- name: ComponentPurge :exec
-- Its BMCs and drift go with it.
DELETE FROM component WHERE id = @id AND deleted_at IS NOT NULL;

-- name: ComponentPurgeByRack :exec
DELETE FROM component WHERE rack_id = @rack_id AND deleted_at IS NOT NULL;

-- name: ComponentRack :one
-- The rack of a component, tombstones too; what it says may have changed by the time the rack is locked.
SELECT rack_id FROM component WHERE id = @id;

-- name: ComponentRackInfo :many
-- What components tell of their racks.
SELECT rack.id, rack.external_id, nvl_domain.id AS domain_id, nvl_domain.external_id AS domain_external_id
FROM rack LEFT JOIN nvl_domain ON nvl_domain.id = rack.nvl_domain_id AND nvl_domain.deleted_at IS NULL
WHERE rack.id = ANY (@rack_ids::uuid[]) AND rack.deleted_at IS NULL;

-- name: ComponentReadiness :many
-- Of the components a disruptive action depends on, some compute trays or all of a rack, those that are not known to be
-- ready. A phase from before a time counts as not known.
SELECT component.id, component.type, component.name, component.rack_id, component.external_id, component.phase,
    coalesce(component.phase_at >= @fresh_since, false)::boolean AS fresh
FROM component
WHERE component.deleted_at IS NULL
    AND (component.id = ANY (@ids::uuid[])
        OR component.rack_id = ANY (@rack_ids::uuid[]) AND component.type = 'Compute')
    AND (component.phase = 'READY' AND component.phase_at >= @fresh_since) IS NOT TRUE;

-- name: ComponentRestore :exec
UPDATE component SET deleted_at = NULL, updated_at = now() WHERE rack_id = @rack_id AND deleted_at = @deleted_at;

-- name: ComponentStrayed :many
-- Of components as they were found in racks, those that have been deleted or moved since.
SELECT input.id::uuid AS id, input.rack_id::uuid AS rack_id
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@rack_ids::uuid[]) AS rack_id) AS input
WHERE NOT EXISTS (SELECT FROM component
    WHERE component.id = input.id AND component.rack_id = input.rack_id AND component.deleted_at IS NULL);

-- name: ComponentTargets :many
-- What a task needs to know of the live components of racks, or of single ones. The management MAC is the smallest MAC
-- of a host BMC.
SELECT component.id, component.type, component.name, component.rack_id, component.slot_id, component.tray_idx,
    component.host_id, component.external_id,
    (SELECT bmc.mac FROM bmc WHERE bmc.component_id = component.id AND bmc.type = 'HOST' ORDER BY bmc.mac LIMIT 1) AS mac
FROM component
WHERE component.deleted_at IS NULL
    AND (component.rack_id = ANY (@rack_ids::uuid[]) OR component.id = ANY (@ids::uuid[]));

-- name: ComponentTaskStats :many
-- Active tasks of racks that name each component, each task once.
SELECT rack_id, component_id::uuid AS component_id, state, count(*)::integer AS tasks
FROM (SELECT DISTINCT task.id, task.rack_id, task.state, unnest(task_plan.component_ids) AS component_id
    FROM task JOIN task_plan ON task_plan.task_id = task.id
    WHERE task.rack_id = ANY (@rack_ids::uuid[]) AND task.finished_at IS NULL) AS named
GROUP BY rack_id, component_id, state;

-- name: ComponentUnready :many
-- The compute trays of racks that are known not to be ready, as of a time or later; columns as in ComponentReadiness.
SELECT component.id, component.type, component.name, component.rack_id, component.external_id, component.phase,
    coalesce(component.phase_at >= @fresh_since, false)::boolean AS fresh
FROM component
WHERE component.rack_id = ANY (@rack_ids::uuid[]) AND component.deleted_at IS NULL AND component.type = 'Compute'
    AND component.phase NOT IN ('READY', 'UNKNOWN') AND component.phase_at >= @fresh_since;
