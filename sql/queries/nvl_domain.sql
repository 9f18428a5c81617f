-- name: DomainGet :one
SELECT * FROM nvl_domain WHERE id = @id AND deleted_at IS NULL;

-- name: DomainListByIDs :many
SELECT * FROM nvl_domain WHERE id = ANY (@ids::uuid[]) AND deleted_at IS NULL;
