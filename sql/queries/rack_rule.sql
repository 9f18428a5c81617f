-- name: RackRuleDelete :exec
DELETE FROM rack_rule WHERE rack_id = @rack_id AND operation_type = @operation_type AND operation_code = @operation_code;

-- name: RackRuleGet :one
SELECT * FROM rack_rule WHERE rack_id = @rack_id AND operation_type = @operation_type AND operation_code = @operation_code;

-- name: RackRuleList :many
-- By the number of the type in the API, power control first, then by code in the order of bytes.
SELECT * FROM rack_rule WHERE rack_id = @rack_id
ORDER BY operation_type <> 'power_control', operation_code COLLATE "C";

-- name: RackRuleSet :execrows
-- Binds a rule to a live rack in place of another one for the same operation. Both are held against being deleted
-- meanwhile; no row when one of them is not there.
INSERT INTO rack_rule (rack_id, operation_type, operation_code, rule_id)
SELECT rack.id, operation_rule.operation_type, operation_rule.operation_code, operation_rule.id
FROM operation_rule, rack
WHERE operation_rule.id = @rule_id AND rack.id = @rack_id AND rack.deleted_at IS NULL
FOR KEY SHARE
ON CONFLICT (rack_id, operation_type, operation_code) DO UPDATE SET rule_id = excluded.rule_id, updated_at = clock_timestamp();
