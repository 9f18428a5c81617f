-- name: DomainCount :one
-- Matches of DomainList before paging.
SELECT count(*)::integer
FROM nvl_domain
WHERE deleted_at IS NULL
    AND (sqlc.narg('names')::text[] IS NULL OR coalesce(name, '') = ANY (sqlc.narg('names')))
    AND coalesce(name, '') ~ ALL (@name_patterns::text[])
    AND (NOT @with_external_id::boolean OR external_id IS NOT NULL);

-- name: DomainGetByAnyID :many
-- Live domains that a client may mean by one text; the one with that external id comes first.
SELECT * FROM nvl_domain
WHERE deleted_at IS NULL AND (external_id = @external_id OR id = sqlc.narg('id'))
ORDER BY (external_id = @external_id) DESC NULLS LAST;

-- name: DomainHold :one
-- Holds a live domain, so that it cannot be deleted before a rack has joined it.
SELECT id FROM nvl_domain WHERE id = @id AND deleted_at IS NULL FOR SHARE;

-- name: DomainInsert :exec
INSERT INTO nvl_domain (id, name, external_id, nmxc_cluster_id)
VALUES (@id, sqlc.narg('name'), sqlc.narg('external_id'), sqlc.narg('nmxc_cluster_id'));

-- name: DomainList :many
-- Live domains by name, unnamed ones last, then by id. A list of values that is null allows all; every pattern, a
-- regular expression, must match. The planner must see the parameters: see RackList.
SELECT *
FROM nvl_domain
WHERE deleted_at IS NULL
    AND (sqlc.narg('names')::text[] IS NULL OR coalesce(name, '') = ANY (sqlc.narg('names')))
    AND coalesce(name, '') ~ ALL (@name_patterns::text[])
    AND (NOT @with_external_id::boolean OR external_id IS NOT NULL)
ORDER BY
    CASE WHEN NOT @descending::boolean THEN name END ASC,
    CASE WHEN @descending THEN name END DESC NULLS LAST,
    id
LIMIT @max OFFSET @skip;

-- name: DomainListByIDs :many
SELECT * FROM nvl_domain WHERE id = ANY (@ids::uuid[]) AND deleted_at IS NULL;

-- name: DomainListByScope :many
-- Live domains that a scope may mean, by any of their identifiers.
SELECT id, name, external_id FROM nvl_domain
WHERE deleted_at IS NULL
    AND (id = ANY (@ids::uuid[]) OR name = ANY (@names::text[]) OR external_id = ANY (@external_ids::text[]));

-- name: DomainListTaken :many
-- Domains in the way of a new one: whoever has its id, even a tombstone, and live ones with its name or external id.
SELECT id, name, external_id, (deleted_at IS NOT NULL)::boolean AS deleted FROM nvl_domain
WHERE id = @id OR deleted_at IS NULL AND (name = @name OR external_id = sqlc.narg('external_id'));
