-- name: DriftCheckedAt :one
-- When the type that was compared the longest ago was; null before the first comparison.
SELECT min(checked_at)::timestamptz AS checked_at FROM drift_check HAVING count(*) > 0;

-- name: DriftCount :one
-- Matches of DriftList before paging, by kind.
SELECT count(*) FILTER (WHERE found.kind = 'missing_in_actual')::integer AS missing,
    count(*) FILTER (WHERE found.kind = 'missing_in_expected')::integer AS unexpected,
    count(*) FILTER (WHERE found.kind = 'mismatch')::integer AS mismatch
FROM (
    SELECT drift.id, drift.kind, drift.type, drift.component_id, component.external_id, drift.field_diffs,
        component.name, component.manufacturer, component.model, component.rack_id,
        'component/' || drift.component_id || '/' || drift.kind AS place
    FROM drift JOIN component ON component.id = drift.component_id
    WHERE component.deleted_at IS NULL
    UNION ALL
    SELECT drift.id, drift.kind, drift.type, NULL, drift.external_id, drift.field_diffs, NULL, NULL, NULL, rack.id,
        'external/' || drift.type || '/' || drift.external_id || '/' || drift.kind
    FROM drift LEFT JOIN rack ON rack.external_id = drift.rack_external_id AND rack.deleted_at IS NULL
    WHERE drift.component_id IS NULL
) AS found
WHERE (sqlc.narg('names')::text[] IS NULL OR coalesce(found.name, '') = ANY (sqlc.narg('names')))
    AND (sqlc.narg('manufacturers')::text[] IS NULL OR coalesce(found.manufacturer, '') = ANY (sqlc.narg('manufacturers')))
    AND (sqlc.narg('models')::text[] IS NULL OR coalesce(found.model, '') = ANY (sqlc.narg('models')))
    AND (sqlc.narg('types')::text[] IS NULL OR found.type = ANY (sqlc.narg('types')))
    AND coalesce(found.name, '') ~ ALL (@name_patterns::text[])
    AND coalesce(found.manufacturer, '') ~ ALL (@manufacturer_patterns::text[])
    AND coalesce(found.model, '') ~ ALL (@model_patterns::text[])
    AND (sqlc.narg('scope_ids')::uuid[] IS NULL OR found.component_id = ANY (sqlc.narg('scope_ids')))
    AND (sqlc.narg('scope_racks')::uuid[] IS NULL OR found.rack_id = ANY (sqlc.narg('scope_racks')))
    AND (sqlc.narg('typed_racks')::uuid[] IS NULL OR (found.rack_id, found.type) IN (
        SELECT unnest(sqlc.narg('typed_racks')::uuid[]), unnest(@typed_types::text[])));

-- name: DriftList :many
-- What the last comparison found, in the order of the components, with filters, order and scope as in ComponentList.
-- Drift of deleted components is hidden; an unexpected object is in the rack it was reported in, and has no name.
SELECT found.id, found.kind, found.component_id, found.external_id, found.field_diffs
FROM (
    SELECT drift.id, drift.kind, drift.type, drift.component_id, component.external_id, drift.field_diffs,
        component.name, component.manufacturer, component.model, component.rack_id,
        'component/' || drift.component_id || '/' || drift.kind AS place
    FROM drift JOIN component ON component.id = drift.component_id
    WHERE component.deleted_at IS NULL
    UNION ALL
    SELECT drift.id, drift.kind, drift.type, NULL, drift.external_id, drift.field_diffs, NULL, NULL, NULL, rack.id,
        'external/' || drift.type || '/' || drift.external_id || '/' || drift.kind
    FROM drift LEFT JOIN rack ON rack.external_id = drift.rack_external_id AND rack.deleted_at IS NULL
    WHERE drift.component_id IS NULL
) AS found
WHERE (sqlc.narg('names')::text[] IS NULL OR coalesce(found.name, '') = ANY (sqlc.narg('names')))
    AND (sqlc.narg('manufacturers')::text[] IS NULL OR coalesce(found.manufacturer, '') = ANY (sqlc.narg('manufacturers')))
    AND (sqlc.narg('models')::text[] IS NULL OR coalesce(found.model, '') = ANY (sqlc.narg('models')))
    AND (sqlc.narg('types')::text[] IS NULL OR found.type = ANY (sqlc.narg('types')))
    AND coalesce(found.name, '') ~ ALL (@name_patterns::text[])
    AND coalesce(found.manufacturer, '') ~ ALL (@manufacturer_patterns::text[])
    AND coalesce(found.model, '') ~ ALL (@model_patterns::text[])
    AND (sqlc.narg('scope_ids')::uuid[] IS NULL OR found.component_id = ANY (sqlc.narg('scope_ids')))
    AND (sqlc.narg('scope_racks')::uuid[] IS NULL OR found.rack_id = ANY (sqlc.narg('scope_racks')))
    AND (sqlc.narg('typed_racks')::uuid[] IS NULL OR (found.rack_id, found.type) IN (
        SELECT unnest(sqlc.narg('typed_racks')::uuid[]), unnest(@typed_types::text[])))
ORDER BY
    CASE WHEN NOT @descending::boolean THEN
        CASE @field::text WHEN 'name' THEN found.name WHEN 'manufacturer' THEN found.manufacturer
            WHEN 'model' THEN found.model WHEN 'type' THEN found.type END END ASC,
    CASE WHEN @descending THEN
        CASE @field WHEN 'name' THEN found.name WHEN 'manufacturer' THEN found.manufacturer
            WHEN 'model' THEN found.model WHEN 'type' THEN found.type END END DESC,
    found.place COLLATE "C", found.id
LIMIT @max OFFSET @skip;
