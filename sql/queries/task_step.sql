-- A step is sought by its key; who drives it is only compared. IS NOT DISTINCT FROM keeps the planner from seeking it by
-- task_step_node_idx instead, which it takes for smaller than it is.

-- name: StepCheckpoint :one
-- Records where a driven step is. No row: the step or its task is in other hands. The task is held, so that nothing of it
-- is recorded or announced after its end.
WITH t AS (
    SELECT id, rack_id, state, message FROM task WHERE task.id = @task_id AND task.state = 'running' FOR SHARE
), s AS (
    UPDATE task_step
    SET action = @action, batch = @batch, attempt = @attempt, action_started_at = @action_started_at, intent = @intent,
        completed = @completed, failed = @failed, results = @results
    FROM t
    WHERE task_step.task_id = t.id AND task_step.stage = @stage AND task_step.step = @step
        AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task_step.state = 'running'
    RETURNING t.id, t.rack_id, t.state, t.message
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stage, stages, component_type, action, total, completed,
        failed)
    SELECT 'step_progress', id, rack_id, state, message, @stage_number::integer, @stages::integer,
        @component_type::text, @action_name::text, @total::integer, @completed, @failed
    FROM s WHERE @announce::boolean
)
SELECT id FROM s;

-- name: StepClaim :one
-- Takes a step that nobody drives. The task is held: whoever ends it must know whether its steps are driven. No row: it is
-- driven, ended or was given a newer epoch.
WITH t AS (
    SELECT id, rack_id, deadline_at FROM task WHERE task.id = @task_id AND task.state = 'running' FOR SHARE
)
UPDATE task_step
SET node = @node
FROM t, task_plan
WHERE task_step.task_id = t.id AND task_step.stage = @stage AND task_step.step = @step
    AND task_step.epoch = @epoch AND task_step.node IS NULL AND task_step.state = 'running'
    AND task_plan.task_id = t.id
RETURNING sqlc.embed(task_step), t.rack_id, t.deadline_at AS task_deadline_at, task_plan.plan, task_plan.request;

-- name: StepEnd :one
-- Ends a driven step and counts it off its stage; the first failure stays with the task until the stage has ended. The rack
-- is locked first, as by everybody who may end a task: whoever ends the last step promotes the tasks that wait. No row: the
-- step or its task is in other hands.
WITH r AS (
    SELECT waiting FROM rack WHERE rack.id = @rack_id FOR NO KEY UPDATE
), s AS (
    UPDATE task_step
    SET state = @state, action = @action, batch = @batch, completed = @completed, failed = @failed, results = @results,
        error = sqlc.narg('error')::text, intent = false, node = NULL, job_id = NULL, gate_since = NULL,
        finished_at = clock_timestamp()
    WHERE task_step.task_id = @task_id AND task_step.stage = @stage AND task_step.step = @step
        AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task_step.state = 'running'
        AND (SELECT count(*) FROM r) >= 0
    RETURNING task_step.task_id
), t AS (
    UPDATE task
    SET open_steps = task.open_steps - 1, stage_error = coalesce(task.stage_error, sqlc.narg('stage_error')::text), updated_at = now()
    FROM s
    WHERE task.id = s.task_id AND task.state = 'running'
    RETURNING task.id, task.rack_id, task.state, task.message, task.open_steps, task.stage_error, task.deadline_at
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stage, stages, component_type, action, total, completed,
        failed, error)
    SELECT 'step_finished'::event_kind, id, rack_id, state, message, @stage_number::integer, @stages::integer,
        @component_type::text, @action_name::text, @total::integer, @completed, @failed,
        coalesce(sqlc.narg('error')::text, '')
    FROM t
    UNION ALL
    SELECT 'stage_finished'::event_kind, id, rack_id, state, message, @stage_number, @stages, '', '', 0, 0, 0,
        coalesce(stage_error, '')
    FROM t WHERE open_steps = 0
)
SELECT open_steps, stage_error, deadline_at, coalesce((SELECT waiting FROM r), 0)::integer AS waiting FROM t;

-- name: StepForget :many
-- Takes the stamps of nodes that are no more from steps of tasks that have ended, and says on which racks: tasks may wait
-- there for these drivers to stop.
UPDATE task_step SET node = NULL
FROM task
WHERE task_step.node IS NOT NULL AND NOT EXISTS (SELECT FROM node WHERE node.incarnation = task_step.node)
    AND task.id = task_step.task_id AND task.finished_at IS NOT NULL
RETURNING task.rack_id;

-- name: StepGate :one
-- Notes since when a driven step waits until its components are ready and what it was warned of, says so in the task's
-- message, and tells the watchers. A warning gives way to what another step of the task waits for. Called with the task
-- locked, so that of two steps each sees what the other has recorded. No row: the step or its task is in other hands.
WITH t AS (
    UPDATE task
    SET updated_at = clock_timestamp(),
        message = CASE WHEN sqlc.narg('gate_since')::timestamptz IS NULL AND EXISTS (SELECT FROM task_step AS other
            WHERE other.task_id = task.id AND other.gate_since IS NOT NULL AND other.state = 'running'
                AND (other.stage, other.step) <> (@stage, @step))
            THEN task.message ELSE @message END
    WHERE task.id = @task_id AND task.state = 'running'
    RETURNING task.id, task.rack_id, task.state, task.message
), s AS (
    UPDATE task_step SET gate_since = sqlc.narg('gate_since')::timestamptz, warning = @warning
    FROM t
    WHERE task_step.task_id = t.id AND task_step.stage = @stage AND task_step.step = @step
        AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task_step.state = 'running'
    RETURNING t.id, t.rack_id, t.state, t.message
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stage, stages, component_type, action)
    SELECT 'task_message', id, rack_id, state, message, @stage_number::integer, @stages::integer, @component_type::text,
        @action_name::text
    FROM s
)
SELECT id FROM s;

-- name: StepGateOpen :one
-- Ends the wait of a driven step for its components and gives back the time to the step and its task. What the message says
-- then is what another step of the task still waits for, if any. Called with the task locked. No row: the step or its task
-- is in other hands.
WITH t AS (
    UPDATE task
    SET deadline_at = task.deadline_at + @waited::interval, updated_at = clock_timestamp(),
        message = CASE WHEN EXISTS (SELECT FROM task_step AS other
            WHERE other.task_id = task.id AND other.gate_since IS NOT NULL AND other.state = 'running'
                AND (other.stage, other.step) <> (@stage, @step))
            THEN task.message ELSE @message END
    WHERE task.id = @task_id AND task.state = 'running'
    RETURNING task.id, task.rack_id, task.state, task.message, task.deadline_at
), s AS (
    UPDATE task_step SET gate_since = NULL, deadline_at = task_step.deadline_at + @waited::interval
    FROM t
    WHERE task_step.task_id = t.id AND task_step.stage = @stage AND task_step.step = @step
        AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task_step.state = 'running'
    RETURNING t.id, t.rack_id, t.state, t.message, t.deadline_at AS task_deadline_at, task_step.deadline_at
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stage, stages, component_type, action)
    SELECT 'task_message', id, rack_id, state, message, @stage_number::integer, @stages::integer, @component_type::text,
        @action_name::text
    FROM s
)
SELECT task_deadline_at, deadline_at FROM s;

-- name: StepGateSince :one
-- Since when a step waits until its components are ready.
SELECT gate_since FROM task_step WHERE task_id = @task_id AND stage = @stage AND step = @step;

-- name: StepListByTasks :many
-- Opened steps, for reports.
SELECT * FROM task_step WHERE task_id = ANY (@task_ids::uuid[]) ORDER BY task_id, stage, step;

-- name: StepPark :one
-- Gives a driven step back until its due time, under a new epoch for the job that will wake it. The task is held: whoever
-- ends it must know whether its steps are driven. No row: the step or its task is in other hands.
WITH t AS (
    SELECT id FROM task WHERE task.id = @task_id AND task.state = 'running' FOR SHARE
)
UPDATE task_step
SET epoch = task_step.epoch + 1, node = NULL, job_id = @job_id, due_at = @due_at, action = @action, batch = @batch,
    attempt = @attempt, action_started_at = @action_started_at, completed = @completed, failed = @failed,
    results = @results
FROM t
WHERE task_step.task_id = t.id AND task_step.stage = @stage AND task_step.step = @step
    AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task_step.state = 'running'
RETURNING task_step.epoch;

-- name: StepTakeOver :many
-- Gives the steps of nodes that are no more a new epoch, so that their former drivers can record nothing.
UPDATE task_step
SET epoch = task_step.epoch + 1, node = NULL
FROM task
WHERE task_step.node IS NOT NULL AND NOT EXISTS (SELECT FROM node WHERE node.incarnation = task_step.node)
    AND task_step.state = 'running' AND task.id = task_step.task_id AND task.state = 'running'
RETURNING task_step.task_id, task_step.stage, task_step.step, task_step.epoch, task.operation_type;

-- name: StepSetJobs :exec
-- Notes which job will wake each step, after the jobs have been inserted.
UPDATE task_step
SET job_id = input.job_id
FROM (SELECT unnest(@task_ids::uuid[]) AS task_id, unnest(@stages::integer[]) AS stage,
    unnest(@steps::integer[]) AS step, unnest(@job_ids::bigint[]) AS job_id) AS input
WHERE task_step.task_id = input.task_id AND task_step.stage = input.stage AND task_step.step = input.step;

-- name: StepListLost :many
-- Steps whose wake-up is gone: nobody drives them, they are due since a while, and the job that was to wake them is
-- neither waiting nor about to run, or ran on one of the given dead nodes. A connection that breaks at the wrong moment
-- can do that to a job.
SELECT task_step.task_id, task_step.stage, task_step.step
FROM task_step JOIN task ON task.id = task_step.task_id
WHERE task_step.state = 'running' AND task_step.node IS NULL AND task.state = 'running' AND task.finished_at IS NULL
    AND (task_step.due_at < now() - @grace::interval
        AND NOT EXISTS (
            SELECT FROM river_job
            WHERE river_job.id = task_step.job_id AND river_job.state IN ('available', 'scheduled', 'retryable'))
        OR EXISTS (
            SELECT FROM river_job
            WHERE river_job.id = task_step.job_id AND river_job.state = 'running'
                AND river_job.attempted_by[cardinality(river_job.attempted_by)] = ANY (@dead::text[])));

-- name: StepListOwn :many
-- Steps that a node is said to drive, those of tasks that have ended among them.
SELECT task_step.task_id, task_step.stage, task_step.step, task_step.epoch, task.rack_id, (task.finished_at IS NOT NULL)::boolean AS ended
FROM task_step JOIN task ON task.id = task_step.task_id
WHERE task_step.node = @node AND task_step.state = 'running';

-- name: StepRelease :exec
-- A driver has stopped without an outcome because its task has ended. A step of a running task keeps its stamp: whoever
-- takes it over goes by that.
UPDATE task_step SET node = NULL
FROM task
WHERE task_step.task_id = @task_id AND task_step.stage = @stage AND task_step.step = @step
    AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task.id = task_step.task_id AND task.state <> 'running';

-- name: StepRevoke :many
-- Takes steps from whoever has them, if anyone: a new epoch for a new wake-up.
UPDATE task_step
SET epoch = task_step.epoch + 1, node = NULL
FROM (SELECT unnest(@task_ids::uuid[]) AS task_id, unnest(@stages::integer[]) AS stage,
    unnest(@steps::integer[]) AS step) AS input, task
WHERE task_step.task_id = input.task_id AND task_step.stage = input.stage AND task_step.step = input.step
    AND task_step.state = 'running' AND task.id = task_step.task_id AND task.state = 'running'
RETURNING task_step.task_id, task_step.stage, task_step.step, task_step.epoch;

-- name: StageAdvance :one
-- Ends the only step of a stage and opens the next stage, which has one step as well, driven on by the same node. No row:
-- the step or its task is in other hands.
WITH held AS (
    SELECT id FROM task WHERE task.id = @task_id AND task.state = 'running' AND task.open_steps = 1 FOR NO KEY UPDATE
), s AS (
    UPDATE task_step
    SET state = @state, action = @action, batch = 0, completed = @completed, failed = @failed, results = '{}',
        intent = false, node = NULL, job_id = NULL, finished_at = clock_timestamp()
    FROM held
    WHERE task_step.task_id = held.id AND task_step.stage = @stage AND task_step.step = @step
        AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task_step.state = 'running'
    RETURNING task_step.task_id
), t AS (
    UPDATE task SET stage = @next_stage, updated_at = now()
    FROM s WHERE task.id = s.task_id
    RETURNING task.id, task.rack_id, task.state, task.message
), opened AS (
    INSERT INTO task_step (task_id, stage, step, total, deadline_at, action_started_at, node, started_at)
    SELECT id, @next_stage, @next_step, @next_total, @next_deadline_at, @next_started_at, @node, clock_timestamp() FROM t
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages, stage, component_type, action, total, completed,
        failed)
    SELECT kind, id, rack_id, state, message, @stages::integer, stage, component_type, action, total, completed, failed
    FROM t, (VALUES
        (1, 'step_finished'::event_kind, @stage_number::integer, @component_type::text, @action_name::text,
            @total::integer, @completed::integer, @failed::integer),
        (2, 'stage_finished', @stage_number, '', '', 0, 0, 0),
        (3, 'stage_started', @next_stage_number::integer, '', '', 0, 0, 0)
    ) AS happened (place, kind, stage, component_type, action, total, completed, failed)
    ORDER BY place
)
SELECT id FROM t;

-- name: StageFinish :one
-- Ends the only step of the last stage, and with it the task. No row: the step or its task is in other hands, or tasks wait
-- for the rack, which the lock on it has seen whatever this statement's snapshot knows.
WITH r AS (
    SELECT waiting FROM rack WHERE rack.id = @rack_id FOR NO KEY UPDATE
), held AS (
    SELECT id, message FROM task WHERE task.id = @task_id AND task.state = 'running' AND task.open_steps = 1
        AND NOT EXISTS (SELECT FROM r WHERE r.waiting > 0)
    FOR NO KEY UPDATE
), s AS (
    UPDATE task_step
    SET state = @state, action = @action, batch = 0, completed = @completed, failed = @failed, results = '{}',
        intent = false, node = NULL, job_id = NULL, finished_at = clock_timestamp()
    FROM held
    WHERE task_step.task_id = held.id AND task_step.stage = @stage AND task_step.step = @step
        AND task_step.epoch = @epoch AND task_step.node IS NOT DISTINCT FROM @node AND task_step.state = 'running'
    RETURNING task_step.task_id
), t AS (
    UPDATE task
    SET state = @to_state, message = @message, open_steps = 0, finished_at = clock_timestamp(),
        updated_at = clock_timestamp()
    FROM s WHERE task.id = s.task_id
    RETURNING task.id, task.rack_id, task.state, task.message
), e AS (
    INSERT INTO event (kind, task_id, rack_id, state, message, stages, stage, component_type, action, total, completed,
        failed)
    SELECT kind, id, rack_id, happened.state, happened.message, @stages::integer, stage, component_type, action, total,
        completed, failed
    FROM t, (VALUES
        (1, 'step_finished'::event_kind, 'running'::task_state, (SELECT message FROM held), @stage_number::integer,
            @component_type::text, @action_name::text, @total::integer, @completed::integer, @failed::integer),
        (2, 'stage_finished', 'running', (SELECT message FROM held), @stage_number, '', '', 0, 0, 0),
        (3, 'task_finished', @to_state, @message, 0, '', '', 0, 0, 0)
    ) AS happened (place, kind, state, message, stage, component_type, action, total, completed, failed)
    ORDER BY place
)
SELECT id FROM t;
