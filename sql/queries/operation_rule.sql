-- name: RuleCandidates :many
-- The rules that may govern a waiting task, held so that the one chosen is still there when the task refers to it.
SELECT sqlc.embed(operation_rule),
    coalesce(operation_rule.id = sqlc.narg('rule_id'), false)::boolean AS requested,
    EXISTS (SELECT FROM rack_rule WHERE rack_rule.rule_id = operation_rule.id AND rack_rule.rack_id = @rack_id
        AND rack_rule.operation_type = @operation_type AND rack_rule.operation_code = @operation_code) AS associated
FROM operation_rule
WHERE operation_rule.id = sqlc.narg('rule_id')
    OR operation_rule.id = (SELECT rule_id FROM rack_rule WHERE rack_rule.rack_id = @rack_id
        AND rack_rule.operation_type = @operation_type AND rack_rule.operation_code = @operation_code)
    OR operation_rule.is_default AND operation_rule.operation_type = @operation_type
        AND operation_rule.operation_code = @operation_code
FOR KEY SHARE OF operation_rule;

-- name: RuleCount :one
SELECT count(*)::integer FROM operation_rule
WHERE (sqlc.narg('operation_type')::text IS NULL OR operation_type = sqlc.narg('operation_type'))
    AND (sqlc.narg('is_default')::boolean IS NULL OR is_default = sqlc.narg('is_default'));

-- name: RuleDelete :exec
DELETE FROM operation_rule WHERE id = @id;

-- name: RuleGet :one
SELECT * FROM operation_rule WHERE id = @id;

-- name: RuleGetDefault :one
SELECT * FROM operation_rule
WHERE operation_type = @operation_type AND operation_code = @operation_code AND is_default;

-- name: RuleInsert :exec
INSERT INTO operation_rule (id, name, description, operation_type, operation_code, definition, is_default)
VALUES (@id, @name, @description, @operation_type, @operation_code, @definition, @is_default);

-- name: RuleList :many
-- Newest first.
SELECT * FROM operation_rule
WHERE (sqlc.narg('operation_type')::text IS NULL OR operation_type = sqlc.narg('operation_type'))
    AND (sqlc.narg('is_default')::boolean IS NULL OR is_default = sqlc.narg('is_default'))
ORDER BY created_at DESC, id DESC
LIMIT @max OFFSET @skip;

-- name: RuleListByRacks :many
-- The rules bound to racks for one operation.
SELECT rack_rule.rack_id, sqlc.embed(operation_rule)
FROM rack_rule JOIN operation_rule ON operation_rule.id = rack_rule.rule_id
WHERE rack_rule.rack_id = ANY (@rack_ids::uuid[]) AND rack_rule.operation_type = @operation_type
    AND rack_rule.operation_code = @operation_code;
