-- name: TaskActiveByComponent :many
-- Unfinished tasks that name a component.
SELECT task.id, task.state FROM task JOIN task_plan ON task_plan.task_id = task.id
WHERE task_plan.component_ids @> ARRAY[@component_id::uuid] AND task.finished_at IS NULL;

-- name: TaskActiveByRacks :many
-- Tasks that may conflict with a new one, oldest first; called with the racks locked.
SELECT task.id, task.rack_id, task.operation_type, task.operation_code, task.state, task.queue_expires_at,
    task_plan.component_types, task_plan.component_ids
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
-- Moves a task to a terminal state and tells the watchers; called with its rack locked. No row: the task has moved since.
WITH t AS (
    UPDATE task
    SET state = @to_state, message = @message, finished_at = clock_timestamp(), updated_at = clock_timestamp(),
        queue_expires_at = NULL
    WHERE task.id = @id AND task.state = @from_state
    RETURNING task.id, rack_id, state, message
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages)
    SELECT 'task_finished', id, rack_id, state, message, coalesce(json_array_length(task_plan.plan->'stages'), 0)
    FROM t JOIN task_plan ON task_plan.task_id = t.id
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
    SELECT 'task_finished', id, rack_id, state, message, coalesce(json_array_length(task_plan.plan->'stages'), 0)
    FROM t JOIN task_plan ON task_plan.task_id = t.id
)
SELECT id FROM t;

-- name: TaskDefer :exec
-- Says what else a waiting task waits for, and tells the watchers where that is new.
WITH t AS (
    UPDATE task SET message = @message, updated_at = clock_timestamp()
    WHERE task.id = @id AND task.state = 'waiting' AND task.message <> @message
    RETURNING task.id, rack_id, state, message
)
INSERT INTO event (kind, task_id, rack_id, state, message)
SELECT 'task_message', id, rack_id, state, message FROM t;

-- name: TaskDeleteOld :many
-- Removes tasks that ended before a time, oldest first, with their events.
WITH t AS (
    DELETE FROM task
    WHERE task.id IN (
        SELECT old.id FROM task AS old WHERE old.finished_at < @before AND old.created_at < @before
        ORDER BY old.created_at LIMIT @max)
    RETURNING task.id
), e AS (
    DELETE FROM event WHERE task_id IN (SELECT id FROM t)
)
SELECT id FROM t;

-- name: TaskForgetRule :execrows
-- Takes a rule that is about to be deleted from tasks that have ended.
UPDATE task SET applied_rule_id = NULL
WHERE task.id IN (SELECT old.id FROM task AS old WHERE old.applied_rule_id = @rule_id AND old.finished_at IS NOT NULL LIMIT @max);

-- name: TaskGet :one
SELECT * FROM task WHERE id = @id;

-- name: TaskGetByKey :many
-- The tasks of racks that were asked for with an idempotency key.
SELECT id, rack_id, operation_type, operation_code
FROM task WHERE idempotency_key = @idempotency_key::text AND rack_id = ANY (@rack_ids::uuid[]);

-- name: TaskInsertMany :exec
-- Inserts the tasks of one submission with their plans and tells the watchers, all in one round trip.
WITH input AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@rack_ids::uuid[]) AS rack_id,
        unnest(@applied_rule_ids::uuid[]) AS applied_rule_id, unnest(@job_ids::bigint[]) AS job_id,
        unnest(@waits::boolean[]) AS waits, unnest(@stages::integer[]) AS stages, unnest(@plans::text[]) AS plan,
        unnest(@component_types::text[]) AS component_types, unnest(@component_ids::text[]) AS component_ids
), born AS (
    -- A parameter array has no nulls: the nil UUID and 0 stand for them.
    SELECT id, nullif(job_id, 0) AS job_id, CASE WHEN waits THEN 'waiting'::task_state ELSE 'pending' END AS state,
        CASE WHEN waits THEN @message_waiting::text ELSE @message END AS message,
        CASE WHEN waits THEN @queue_expires_at::timestamptz END AS queue_expires_at
    FROM input
), t AS (
    INSERT INTO task (id, rack_id, operation_type, operation_code, description, state, message, applied_rule_id, job_id,
        start_job_id, queue_expires_at, idempotency_key, retry_of, created_at)
    SELECT id, rack_id, @operation_type, @operation_code, @description, born.state, born.message,
        nullif(applied_rule_id, '00000000-0000-0000-0000-000000000000'), born.job_id, born.job_id, born.queue_expires_at,
        sqlc.narg('idempotency_key')::text, sqlc.narg('retry_of')::uuid,
        clock_timestamp() -- with the rack locked, so that tasks of a rack are in the order they were admitted
    FROM input JOIN born USING (id)
), p AS (
    INSERT INTO task_plan (task_id, request, plan, component_types, component_ids)
    SELECT id, @request::jsonb, plan::json, component_types::text[], component_ids::uuid[] FROM input
)
INSERT INTO event (kind, task_id, rack_id, state, message, stages)
SELECT 'task_created', id, rack_id, born.state, born.message, stages
FROM input JOIN born USING (id);

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

-- name: TaskListWaiting :many
-- What promoting the tasks that wait for a rack needs, in the order they came; called with the rack locked.
SELECT sqlc.embed(task), task_plan.component_ids, task_plan.component_types, task_plan.request, task_plan.plan
FROM task JOIN task_plan ON task_plan.task_id = task.id
WHERE task.rack_id = @rack_id AND task.state = 'waiting' AND task.finished_at IS NULL
ORDER BY task.created_at, task.id;

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

-- name: TaskPromote :one
-- Lets a waiting task go on: with its final plan and the job that starts it, or with neither when it is about to fail. No
-- row: it has moved since.
WITH t AS (
    UPDATE task
    SET state = 'pending', message = @message, queue_expires_at = NULL, applied_rule_id = sqlc.narg('applied_rule_id'),
        job_id = sqlc.narg('job_id'), start_job_id = sqlc.narg('job_id'), updated_at = clock_timestamp()
    WHERE task.id = @id AND task.state = 'waiting'
    RETURNING task.id, rack_id, state, message
), p AS (
    UPDATE task_plan SET plan = sqlc.narg('plan')::json
    FROM t WHERE task_plan.task_id = t.id AND sqlc.narg('plan')::json IS NOT NULL
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages)
    SELECT 'task_message', id, rack_id, state, message, @stages::integer FROM t
)
SELECT id FROM t;

-- name: TaskRackBusy :one
-- Until when the tasks that wait for a rack are kept waiting: for a minute after the last cancellation there whose driver
-- has not stopped. No row: they are not.
SELECT (task.finished_at + interval '60 seconds')::timestamptz AS until
FROM task JOIN task_step ON task_step.task_id = task.id
    JOIN node ON node.incarnation = task_step.node
WHERE task.rack_id = @rack_id AND task.state = 'terminated' AND task.finished_at > now() - interval '60 seconds'
ORDER BY task.finished_at DESC
LIMIT 1;

-- name: TaskRetriedBy :one
SELECT id FROM task WHERE retry_of = @id;

-- name: TaskPlans :many
SELECT task_id, plan FROM task_plan WHERE task_id = ANY (@task_ids::uuid[]);

-- name: TaskStart :one
-- Starts a pending task by opening its first stage. No row: another worker did, or it was cancelled.
WITH t AS (
    UPDATE task
    SET state = 'running', message = @message, stage = @stage, open_steps = cardinality(@steps::integer[]),
        deadline_at = @deadline_at, started_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE task.id = @id AND task.state = 'pending'
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
