-- name: DomainListByIDs :many
SELECT * FROM nvl_domain WHERE id = ANY (@ids::uuid[]) AND deleted_at IS NULL;

-- name: DomainLock :one
-- Holds a live domain, so that it cannot be deleted before a rack has joined it.
SELECT id FROM nvl_domain WHERE id = @id AND deleted_at IS NULL FOR SHARE;
