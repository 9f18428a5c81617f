-- name: BMCInsertMany :exec
INSERT INTO bmc (mac, type, component_id, ip)
SELECT mac, type, component_id, nullif(ip, '')::inet
FROM (SELECT unnest(@macs::macaddr[]) AS mac, unnest(@types::text[]) AS type,
    unnest(@component_ids::uuid[]) AS component_id, unnest(@ips::text[]) AS ip) AS input;

-- name: BMCListByComponents :many
-- In the order clients see them: host before DPU, then by MAC.
SELECT * FROM bmc WHERE component_id = ANY (@component_ids::uuid[]) ORDER BY component_id, type DESC, mac;

-- name: BMCListTaken :many
-- Live owners of MACs.
SELECT bmc.mac, bmc.component_id FROM bmc JOIN component ON component.id = bmc.component_id
WHERE bmc.mac = ANY (@macs::macaddr[]) AND component.deleted_at IS NULL;

-- name: BMCReleaseDeleted :exec
-- Takes MACs away from tombstones: a deleted component reserves nothing.
DELETE FROM bmc USING component
WHERE component.id = bmc.component_id AND component.deleted_at IS NOT NULL AND bmc.mac = ANY (@macs::macaddr[]);
