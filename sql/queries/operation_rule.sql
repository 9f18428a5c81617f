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

-- name: RuleClearDefault :exec
-- Takes the flag from the default rule of an operation, unless that is the one to have it.
UPDATE operation_rule SET is_default = false, updated_at = clock_timestamp()
WHERE operation_type = @operation_type AND operation_code = @operation_code AND is_default AND id <> @id;

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

-- name: RuleInsertMany :exec
INSERT INTO operation_rule (id, name, description, operation_type, operation_code, definition, is_default)
SELECT unnest(@ids::uuid[]), unnest(@names::text[]), unnest(@descriptions::text[]), unnest(@operation_types::text[]),
    unnest(@operation_codes::text[]), unnest(@definitions::text[])::jsonb, unnest(@defaults::boolean[]);

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

-- name: RuleListForBatch :many
-- What rules of a batch may stand for: the defaults, and whatever has one of their names. A default comes after others of
-- its name, and then the newest one first.
SELECT id, name, operation_type, operation_code, is_default FROM operation_rule
WHERE is_default OR name = ANY (@names::text[])
ORDER BY is_default, created_at DESC, id DESC;

-- name: RuleLockAll :exec
-- Keeps every other writer of rules out until the transaction ends; readers, and tasks that refer to a rule, go on. There
-- are few rules and they are rarely written, so one lock that cannot deadlock is better than an order of many.
LOCK TABLE operation_rule IN SHARE ROW EXCLUSIVE MODE;

-- name: RuleSetDefault :exec
UPDATE operation_rule SET is_default = true, updated_at = clock_timestamp() WHERE id = @id AND NOT is_default;

-- name: RuleUpdate :execrows
-- What is null stays.
UPDATE operation_rule
SET name = coalesce(sqlc.narg('name'), name), description = coalesce(sqlc.narg('description'), description),
    definition = coalesce(sqlc.narg('definition'), definition), updated_at = clock_timestamp()
WHERE id = @id;

-- name: RuleUpdateMany :exec
UPDATE operation_rule
SET name = input.name, description = input.description, definition = input.definition::jsonb, updated_at = clock_timestamp()
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@names::text[]) AS name, unnest(@descriptions::text[]) AS description,
    unnest(@definitions::text[]) AS definition) AS input
WHERE operation_rule.id = input.id;
