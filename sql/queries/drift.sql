-- name: DriftCheckedAt :one
-- When the type that was compared the longest ago was; null before the first comparison.
SELECT min(checked_at)::timestamptz AS checked_at FROM drift_check HAVING count(*) > 0;

-- name: DriftList :many
-- What the last comparison found, in the order of the components, with filters, order and scope as in ComponentPage, and
-- in each row how much of each kind there is on all pages. Drift of deleted components is hidden; an unexpected object
-- is in the rack it was reported in, and has no name. The OFFSET keeps filters out of the joins, where the planner would
-- put every component to them before it looks for its drift.
SELECT found.id, found.kind, found.component_id, found.external_id, found.field_diffs,
    (count(*) FILTER (WHERE found.kind = 'missing_in_actual') OVER ())::integer AS missing,
    (count(*) FILTER (WHERE found.kind = 'missing_in_expected') OVER ())::integer AS unexpected,
    (count(*) FILTER (WHERE found.kind = 'mismatch') OVER ())::integer AS mismatch
FROM (
    SELECT drift.id, drift.kind, drift.type, drift.component_id, component.external_id, drift.field_diffs,
        component.name, component.manufacturer, component.model,
        'component/' || drift.component_id || '/' || drift.kind AS place
    FROM drift JOIN component ON component.id = drift.component_id
    WHERE component.deleted_at IS NULL
        AND (sqlc.narg('scope_ids')::uuid[] IS NULL OR component.id = ANY (sqlc.narg('scope_ids')))
        AND (sqlc.narg('scope_racks')::uuid[] IS NULL OR component.rack_id = ANY (sqlc.narg('scope_racks')))
        AND (sqlc.narg('typed_racks')::uuid[] IS NULL OR (component.rack_id, component.type) IN (
            SELECT unnest(sqlc.narg('typed_racks')::uuid[]), unnest(@typed_types::text[])))
    UNION ALL
    SELECT drift.id, drift.kind, drift.type, NULL, drift.external_id, drift.field_diffs, NULL, NULL, NULL,
        'external/' || drift.type || '/' || drift.external_id || '/' || drift.kind
    FROM drift LEFT JOIN rack ON rack.external_id = drift.rack_external_id AND rack.deleted_at IS NULL
    WHERE drift.component_id IS NULL
        AND sqlc.narg('scope_ids')::uuid[] IS NULL
        AND (sqlc.narg('scope_racks')::uuid[] IS NULL OR rack.id = ANY (sqlc.narg('scope_racks')))
        AND (sqlc.narg('typed_racks')::uuid[] IS NULL OR (rack.id, drift.type) IN (
            SELECT unnest(sqlc.narg('typed_racks')::uuid[]), unnest(@typed_types::text[])))
    OFFSET 0
) AS found
WHERE (sqlc.narg('names')::text[] IS NULL OR coalesce(found.name, '') = ANY (sqlc.narg('names')))
    AND (sqlc.narg('manufacturers')::text[] IS NULL OR coalesce(found.manufacturer, '') = ANY (sqlc.narg('manufacturers')))
    AND (sqlc.narg('models')::text[] IS NULL OR coalesce(found.model, '') = ANY (sqlc.narg('models')))
    AND (sqlc.narg('types')::text[] IS NULL OR found.type = ANY (sqlc.narg('types')))
    AND (cardinality(@name_patterns::text[]) = 0 OR coalesce(found.name, '') ~ ALL (@name_patterns))
    AND (cardinality(@manufacturer_patterns::text[]) = 0 OR coalesce(found.manufacturer, '') ~ ALL (@manufacturer_patterns))
    AND (cardinality(@model_patterns::text[]) = 0 OR coalesce(found.model, '') ~ ALL (@model_patterns))
ORDER BY
    CASE WHEN NOT @descending::boolean THEN
        CASE @field::text WHEN 'name' THEN found.name WHEN 'manufacturer' THEN found.manufacturer
            WHEN 'model' THEN found.model WHEN 'type' THEN found.type END END ASC,
    CASE WHEN @descending THEN
        CASE @field WHEN 'name' THEN found.name WHEN 'manufacturer' THEN found.manufacturer
            WHEN 'model' THEN found.model WHEN 'type' THEN found.type END END DESC,
    found.place COLLATE "C", found.id
LIMIT @max OFFSET @skip;
