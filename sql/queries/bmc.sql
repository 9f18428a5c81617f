-- name: BMCInsertMany :exec
INSERT INTO bmc (mac, type, component_id, rack_id, ip)
SELECT input.mac, input.type, component.id, component.rack_id, nullif(input.ip, '')::inet
FROM (SELECT unnest(@macs::macaddr[]) AS mac, unnest(@types::text[]) AS type,
    unnest(@component_ids::uuid[]) AS component_id, unnest(@ips::text[]) AS ip) AS input
    JOIN component ON component.id = input.component_id;

-- name: BMCList :many
-- BMCs of single components, and of all components of racks, tombstones among them; in no order: sorting thousands is
-- cheaper for whoever has them by component. The OFFSET holds the planner to bmc_component_idx; from a join it makes a
-- scan of the whole table.
SELECT bmc.mac, bmc.type, bmc.component_id, bmc.ip FROM bmc WHERE bmc.rack_id = ANY (@rack_ids::uuid[])
UNION ALL
SELECT listed.mac, listed.type, listed.component_id, listed.ip
FROM unnest(@component_ids::uuid[]) AS wanted
    CROSS JOIN LATERAL (SELECT * FROM bmc WHERE bmc.component_id = wanted OFFSET 0) AS listed;

-- name: BMCListTaken :many
-- Owners of MACs, tombstones among them.
SELECT bmc.mac, bmc.component_id, (component.deleted_at IS NOT NULL)::boolean AS deleted
FROM bmc JOIN component ON component.id = bmc.component_id
WHERE bmc.mac = ANY (@macs::macaddr[]);

-- name: BMCReleaseDeleted :exec
-- Takes MACs away from tombstones: a deleted component reserves nothing.
DELETE FROM bmc USING component
WHERE component.id = bmc.component_id AND component.deleted_at IS NOT NULL AND bmc.mac = ANY (@macs::macaddr[]);

-- name: BMCSetIPs :exec
UPDATE bmc SET ip = input.ip
FROM (SELECT unnest(@macs::macaddr[]) AS mac, unnest(@ips::inet[]) AS ip) AS input
WHERE bmc.mac = input.mac;
