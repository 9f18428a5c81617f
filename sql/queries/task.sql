-- name: TaskActiveByComponent :many
-- Unfinished tasks that name a component.
SELECT task.id, task.state FROM task JOIN task_plan ON task_plan.task_id = task.id
WHERE task_plan.component_ids @> ARRAY[@component_id::uuid] AND task.finished_at IS NULL;

-- name: TaskActiveByRacks :many
-- Tasks that may conflict with a new one, oldest first; called with the racks locked.
SELECT task.id, task.rack_id, task.operation_type, task.operation_code, task.state, task_plan.component_types,
    task_plan.component_ids
FROM task JOIN task_plan ON task_plan.task_id = task.id
WHERE task.rack_id = ANY (@rack_ids::uuid[]) AND task.finished_at IS NULL
ORDER BY task.created_at, task.id;

-- name: TaskCount :one
-- Matches of TaskList before paging.
SELECT count(*)::integer
FROM task
WHERE (sqlc.narg('rack_id')::uuid IS NULL OR task.rack_id = sqlc.narg('rack_id'))
    AND (sqlc.narg('component_id')::uuid IS NULL OR task.id IN (
        SELECT task_id FROM task_plan WHERE component_ids @> ARRAY[sqlc.narg('component_id')::uuid]))
    AND (NOT @active_only::boolean OR task.finished_at IS NULL);

-- name: TaskEnd :one
-- Moves a task to a terminal state and tells the watchers. No row: the task has moved since.
WITH t AS (
    UPDATE task
    SET state = @to_state, message = @message, finished_at = clock_timestamp(), updated_at = clock_timestamp(),
        queue_expires_at = NULL
    WHERE task.id = @id AND task.state = @from_state
    RETURNING task.id, rack_id, state, message
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages)
    SELECT 'task_finished', id, rack_id, state, message, @stages::integer FROM t
)
SELECT id FROM t;

-- name: TaskEndWaiting :many
-- Ends the tasks that wait for a rack and tells the watchers.
WITH t AS (
    UPDATE task
    SET state = @to_state, message = @message, finished_at = clock_timestamp(), updated_at = clock_timestamp(),
        queue_expires_at = NULL
    WHERE task.rack_id = @rack_id AND task.state = 'waiting' AND task.finished_at IS NULL
    RETURNING task.id, rack_id, state, message
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages)
    SELECT 'task_finished', id, rack_id, state, message, 0 FROM t
)
SELECT id FROM t;

-- name: TaskInsertMany :exec
-- Inserts the tasks of one submission with their plans and tells the watchers, all in one round trip.
WITH input AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@rack_ids::uuid[]) AS rack_id,
        unnest(@applied_rule_ids::uuid[]) AS applied_rule_id, unnest(@job_ids::bigint[]) AS job_id,
        unnest(@stages::integer[]) AS stages, unnest(@plans::text[]) AS plan,
        unnest(@component_types::text[]) AS component_types, unnest(@component_ids::text[]) AS component_ids
), t AS (
    INSERT INTO task (id, rack_id, operation_type, operation_code, description, state, message, applied_rule_id, job_id,
        start_job_id)
    SELECT id, rack_id, @operation_type, @operation_code, @description, 'pending', @message,
        -- The nil UUID stands for "none": a parameter array has no nulls.
        nullif(applied_rule_id, '00000000-0000-0000-0000-000000000000'), job_id, job_id
    FROM input
), p AS (
    INSERT INTO task_plan (task_id, request, plan, component_types, component_ids)
    SELECT id, @request::jsonb, plan::json, component_types::text[], component_ids::uuid[] FROM input
)
INSERT INTO event (kind, task_id, rack_id, state, message, stages)
SELECT 'task_created', id, rack_id, 'pending', @message, stages FROM input;

-- name: TaskList :many
-- Newest first.
SELECT sqlc.embed(task), task_plan.component_ids, task_plan.request
FROM task JOIN task_plan ON task_plan.task_id = task.id
WHERE (sqlc.narg('rack_id')::uuid IS NULL OR task.rack_id = sqlc.narg('rack_id'))
    AND (sqlc.narg('component_id')::uuid IS NULL OR task.id IN (
        SELECT task_id FROM task_plan WHERE component_ids @> ARRAY[sqlc.narg('component_id')::uuid]))
    AND (NOT @active_only::boolean OR task.finished_at IS NULL)
ORDER BY task.created_at DESC, task.id DESC
LIMIT @max OFFSET @skip;

-- name: TaskLeakAnswered :one
-- Whether there ever was a leak: on most sites there was none, and looking for thousands of components is saved.
SELECT EXISTS (SELECT FROM task_plan WHERE answers_leak);

-- name: TaskListByIDs :many
SELECT sqlc.embed(task), task_plan.component_ids, task_plan.request, task_plan.plan
FROM task JOIN task_plan ON task_plan.task_id = task.id
WHERE task.id = ANY (@ids::uuid[]);

-- name: TaskLock :one
-- Locks a task against every other transition until the transaction ends.
SELECT * FROM task WHERE id = @id FOR NO KEY UPDATE;

-- name: TaskPlan :one
-- What starting a task needs. The rack is busy while a driver of a task that was cancelled there less than a minute ago
-- has not stopped.
SELECT task.rack_id, task.state, task_plan.request, task_plan.plan,
    EXISTS (SELECT FROM task AS cancelled JOIN task_step ON task_step.task_id = cancelled.id
        JOIN node ON node.incarnation = task_step.node
        WHERE cancelled.rack_id = task.rack_id AND cancelled.state = 'terminated'
            AND cancelled.finished_at > now() - interval '60 seconds') AS busy
FROM task JOIN task_plan ON task_plan.task_id = task.id
WHERE task.id = @id;

-- name: TaskPlans :many
SELECT task_id, plan FROM task_plan WHERE task_id = ANY (@task_ids::uuid[]);

-- name: TaskStart :one
-- Starts a pending task by opening its first stage. No row: another worker did, or it was cancelled.
WITH t AS (
    UPDATE task
    SET state = 'running', message = @message, stage = @stage, open_steps = cardinality(@steps::integer[]),
        deadline_at = @deadline_at, started_at = now(), updated_at = now()
    WHERE task.id = @id AND task.state = 'pending'
    RETURNING task.id, rack_id, state, message
), input AS (
    SELECT unnest(@steps::integer[]) AS step, unnest(@totals::integer[]) AS total,
        unnest(@deadlines::timestamptz[]) AS deadline_at, unnest(@nodes::uuid[]) AS node,
        unnest(@job_ids::bigint[]) AS job_id
), s AS (
    INSERT INTO task_step (task_id, stage, step, total, deadline_at, action_started_at, node, job_id)
    SELECT t.id, @stage, input.step, input.total, input.deadline_at, @started_at,
        nullif(input.node, '00000000-0000-0000-0000-000000000000'), nullif(input.job_id, 0)
    FROM t, input
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages, stage)
    SELECT unnest(ARRAY['task_started', 'stage_started']::event_kind[]), id, rack_id, state, message,
        @stages::integer, unnest(ARRAY[0, @stage_number::integer])
    FROM t
)
SELECT rack_id FROM t;

-- name: StageOpen :one
-- Opens the next stage of a running task whose open stage has ended. No row: the task has moved since.
WITH t AS (
    UPDATE task
    SET stage = @stage, open_steps = cardinality(@steps::integer[]), updated_at = now()
    WHERE task.id = @id AND task.state = 'running' AND task.stage = @from_stage AND task.open_steps = 0
    RETURNING task.id, rack_id, state, message
), input AS (
    SELECT unnest(@steps::integer[]) AS step, unnest(@totals::integer[]) AS total,
        unnest(@deadlines::timestamptz[]) AS deadline_at, unnest(@nodes::uuid[]) AS node,
        unnest(@job_ids::bigint[]) AS job_id
), s AS (
    INSERT INTO task_step (task_id, stage, step, total, deadline_at, action_started_at, node, job_id, started_at)
    SELECT t.id, @stage, input.step, input.total, input.deadline_at, @started_at,
        nullif(input.node, '00000000-0000-0000-0000-000000000000'), nullif(input.job_id, 0), clock_timestamp()
    FROM t, input
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages, stage)
    SELECT 'stage_started', id, rack_id, state, message, @stages::integer, @stage_number FROM t
)
SELECT id FROM t;

-- name: TaskNotifyEnd :exec
-- Tells every node that a task was ended from outside, so that whoever drives it stops.
SELECT pg_notify('flow_task_end', (@id::uuid)::text);

-- name: TaskListUnstarted :many
-- Pending tasks whose start job has been lost, or was running on one of the given dead nodes.
SELECT task.id
FROM task LEFT JOIN river_job ON river_job.id = task.start_job_id
WHERE task.state = 'pending' AND task.finished_at IS NULL AND (
    (river_job.id IS NULL OR river_job.state NOT IN ('available', 'scheduled', 'retryable'))
        AND task.updated_at < now() - @grace::interval
    OR river_job.state = 'running' AND river_job.attempted_by[cardinality(river_job.attempted_by)] = ANY (@dead::text[]));

-- name: TaskTouch :exec
-- Notes that pending tasks were given new start jobs; the number of the first one stays what clients see.
UPDATE task
SET start_job_id = input.job_id, updated_at = now()
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@job_ids::bigint[]) AS job_id) AS input
WHERE task.id = input.id AND task.state = 'pending';

-- name: TaskListEnded :many
-- Those of the given tasks that have ended.
SELECT id FROM task WHERE id = ANY (@ids::uuid[]) AND state IN ('completed', 'failed', 'terminated');
