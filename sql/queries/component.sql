-- name: ComponentInsertMany :exec
-- Empty text stands for "not known" in the optional columns.
INSERT INTO component (id, type, name, manufacturer, serial, model, description, firmware_version, slot_id, tray_idx,
    host_id, rack_id, external_id, health)
SELECT id, type, name, nullif(manufacturer, ''), nullif(serial, ''), nullif(model, ''), nullif(description, ''),
    firmware_version, slot_id, tray_idx, host_id, @rack_id, nullif(external_id, ''), nullif(health, '')::jsonb
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@types::text[]) AS type, unnest(@names::text[]) AS name,
    unnest(@manufacturers::text[]) AS manufacturer, unnest(@serials::text[]) AS serial,
    unnest(@models::text[]) AS model, unnest(@descriptions::text[]) AS description,
    unnest(@firmware_versions::text[]) AS firmware_version, unnest(@slot_ids::integer[]) AS slot_id,
    unnest(@tray_idxs::integer[]) AS tray_idx, unnest(@host_ids::integer[]) AS host_id,
    unnest(@external_ids::text[]) AS external_id, unnest(@healths::text[]) AS health) AS input;

-- name: ComponentListByRacks :many
-- Live components of racks, in no order: as with BMCs, the reader sorts those of each rack.
SELECT * FROM component WHERE rack_id = ANY (@rack_ids::uuid[]) AND deleted_at IS NULL;

-- name: ComponentListTaken :many
-- Components in the way of new ones: whoever has one of the ids, even a tombstone, and live ones with one of the
-- external ids, or with one of the manufacturers and one of the serial numbers. The caller knows which belong
-- together.
SELECT id, type, manufacturer, serial, external_id, (deleted_at IS NOT NULL)::boolean AS deleted FROM component
WHERE id = ANY (@ids::uuid[])
    OR deleted_at IS NULL AND external_id = ANY (@external_ids::text[])
    OR deleted_at IS NULL AND manufacturer = ANY (@manufacturers::text[]) AND serial = ANY (@serials::text[]);

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
-- Active tasks that name each component.
SELECT component_id::uuid AS component_id, state, count(*)::integer AS tasks
FROM (SELECT unnest(task_plan.component_ids) AS component_id, task.state
    FROM task JOIN task_plan ON task_plan.task_id = task.id
    WHERE task.rack_id = ANY (@rack_ids::uuid[]) AND task.finished_at IS NULL) AS named
GROUP BY component_id, state;

-- name: ComponentListByAnyID :many
-- Components that a client may mean by one text: live ones by external id or BMC MAC, any by Flow's own id.
SELECT component.id, false AS by_id FROM component
WHERE component.external_id = @external_id AND component.deleted_at IS NULL
UNION ALL
SELECT component.id, false FROM component JOIN bmc ON bmc.component_id = component.id
WHERE bmc.mac = @mac::macaddr AND component.deleted_at IS NULL
UNION ALL
SELECT component.id, true FROM component WHERE component.id = @id;
