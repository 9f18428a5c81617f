-- +goose Up

CREATE TYPE task_state AS ENUM ('waiting', 'pending', 'running', 'completed', 'failed', 'terminated');

-- The life of a task. The engine decides moves by its own copy of this table and a test holds the two together; this
-- one makes a wrong move impossible whoever writes it.
CREATE TABLE task_move (
    from_state task_state NOT NULL,
    to_state   task_state NOT NULL,
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO task_move VALUES
    ('waiting', 'pending'), ('waiting', 'terminated'),
    ('pending', 'running'), ('pending', 'failed'), ('pending', 'terminated'),
    ('running', 'completed'), ('running', 'failed'), ('running', 'terminated');

-- What changes of a task while it lives. What never changes is in task_plan, so that updates stay small.
CREATE TABLE task (
    id               uuid PRIMARY KEY,
    -- No foreign key: a purged rack leaves its tasks behind as history.
    rack_id          uuid NOT NULL,
    operation_type   text NOT NULL,
    operation_code   text NOT NULL,
    description      text NOT NULL DEFAULT '',
    state            task_state NOT NULL,
    message          text NOT NULL,
    applied_rule_id  uuid CONSTRAINT task_applied_rule_fkey REFERENCES operation_rule ON DELETE SET NULL,
    -- Number of the River job the task was handed over with; clients see it as run_id.
    job_id           bigint,
    -- The job that will start it: the same one, or its replacement after a crash.
    start_job_id     bigint,
    queue_expires_at timestamptz,
    -- The caller's key: asking for the same again finds this task instead of making another.
    idempotency_key  text,
    -- The task whose unfinished rest this one does.
    retry_of         uuid CONSTRAINT task_retry_of_fkey REFERENCES task ON DELETE SET NULL,
    -- Index of the open stage in the plan, and how many of its steps have not ended.
    stage            integer NOT NULL DEFAULT -1,
    open_steps       integer NOT NULL DEFAULT 0,
    -- The first failed step's error with its component type, kept until its siblings have ended.
    stage_error      text,
    -- The whole task's time budget as a point in time, set when it starts.
    deadline_at      timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT task_finished_check CHECK ((state IN ('completed', 'failed', 'terminated')) = (finished_at IS NOT NULL)),
    CONSTRAINT task_started_check CHECK (started_at IS NOT NULL OR state NOT IN ('running', 'completed')),
    CONSTRAINT task_queue_check CHECK ((state = 'waiting') = (queue_expires_at IS NOT NULL)),
    CONSTRAINT task_open_steps_check CHECK (open_steps >= 0),
    CONSTRAINT task_message_check CHECK (octet_length(message) <= 512)
) WITH (fillfactor = 70);
CREATE INDEX task_created_idx ON task (created_at DESC, id DESC);
CREATE INDEX task_rack_idx ON task (rack_id, created_at DESC, id DESC);
-- Active tasks, by what does not change while they are: a task that only moves from pending to running stays a HOT update.
CREATE INDEX task_active_idx ON task (rack_id) WHERE finished_at IS NULL;
-- For a start that must wait for the driver of a task that has just been cancelled.
CREATE INDEX task_terminated_idx ON task (rack_id, finished_at) WHERE state = 'terminated';
CREATE UNIQUE INDEX task_idempotency_key ON task (idempotency_key, rack_id) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX task_retry_of_key ON task (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX task_applied_rule_idx ON task (applied_rule_id) WHERE applied_rule_id IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION task_refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM task_move WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'task % cannot move from % to %', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'task_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER task_move BEFORE UPDATE OF state ON task
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION task_refuse_move();

-- Keeps rack.waiting. The rack is locked already by whoever makes a task wait or ends its waiting.
-- +goose StatementBegin
CREATE FUNCTION task_count_waiting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rack SET waiting = rack.waiting + CASE NEW.state WHEN 'waiting' THEN 1 ELSE -1 END WHERE id = NEW.rack_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER task_waits AFTER INSERT ON task
    FOR EACH ROW WHEN (NEW.state = 'waiting') EXECUTE FUNCTION task_count_waiting();
CREATE TRIGGER task_waits_or_not AFTER UPDATE OF state ON task
    FOR EACH ROW WHEN ((OLD.state = 'waiting') <> (NEW.state = 'waiting')) EXECUTE FUNCTION task_count_waiting();

-- The frozen part of a task, written when it is admitted; the plan of one that waits is made anew when it is promoted.
CREATE TABLE task_plan (
    task_id         uuid PRIMARY KEY CONSTRAINT task_plan_task_fkey REFERENCES task ON DELETE CASCADE,
    -- What was asked for: rule override, forced, override of the readiness check.
    request         jsonb NOT NULL,
    -- Stages, steps, actions, components and effective timeouts. json, not jsonb: it is only ever read whole.
    plan            json NOT NULL,
    component_types text[] NOT NULL,
    component_ids   uuid[] NOT NULL,
    -- Whether the task switches off what a leak was detected in; readers of components are told how that goes.
    answers_leak    boolean NOT NULL DEFAULT false
);
CREATE INDEX task_plan_component_idx ON task_plan USING gin (component_ids);
CREATE INDEX task_plan_leak_component_idx ON task_plan USING gin (component_ids) WHERE answers_leak;
CREATE INDEX task_plan_leak_idx ON task_plan (task_id) WHERE answers_leak;

CREATE TYPE step_state AS ENUM ('running', 'completed', 'failed');

-- A step whose stage has been opened. Steps that are still to come, and skipped ones, exist in the plan only.
CREATE TABLE task_step (
    task_id            uuid NOT NULL CONSTRAINT task_step_task_fkey REFERENCES task ON DELETE CASCADE,
    stage              integer NOT NULL, -- index in the plan, not the rule's stage number
    step               integer NOT NULL, -- index in the stage
    state              step_state NOT NULL DEFAULT 'running',
    -- Where the step is: the action in the plan, the batch of components, and the attempt or poll.
    action             integer NOT NULL DEFAULT 0,
    batch              integer NOT NULL DEFAULT 0,
    attempt            integer NOT NULL DEFAULT 0,
    -- Start of the current batch's action, from which its own timeout counts.
    action_started_at  timestamptz NOT NULL DEFAULT now(),
    -- A command that must not be sent twice is written down here before it is sent.
    intent             boolean NOT NULL DEFAULT false,
    -- Not before this time is there anything to do.
    due_at             timestamptz NOT NULL DEFAULT now(),
    deadline_at        timestamptz NOT NULL,
    -- Components of the step, and how the last counting action left them.
    total              integer NOT NULL,
    completed          integer NOT NULL DEFAULT 0,
    failed             integer NOT NULL DEFAULT 0,
    -- What is known of single components of the current batch: {"<id>": "" when confirmed, else the error}. Sparse: a
    -- batch that went well leaves nothing here.
    results            jsonb NOT NULL DEFAULT '{}',
    error              text,
    -- Since when the step waits until its components are ready; what it waits is added to its deadline.
    gate_since         timestamptz,
    -- What an operator should know of the step although it did not fail.
    warning            text NOT NULL DEFAULT '',
    -- Who drives the step. A completion carries the epoch it belongs to; a node that lost its lease has the old one.
    epoch              integer NOT NULL DEFAULT 0,
    node               uuid,
    -- The River job that will wake the step; null while a node drives it from an earlier job.
    job_id             bigint,
    started_at         timestamptz NOT NULL DEFAULT now(),
    finished_at        timestamptz,
    PRIMARY KEY (task_id, stage, step),
    CONSTRAINT task_step_finished_check CHECK ((state = 'running') = (finished_at IS NULL)),
    CONSTRAINT task_step_error_check CHECK ((state = 'failed') = (error IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX task_step_node_idx ON task_step (node) WHERE node IS NOT NULL;

-- A life of a flow process. The row goes when its work has been taken over.
CREATE TABLE node (
    incarnation  uuid PRIMARY KEY,
    node_id      uuid NOT NULL, -- the same over restarts on one data directory
    host         text NOT NULL,
    version      text NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE node, task_step, task_plan, task, task_move;
DROP FUNCTION task_refuse_move, task_count_waiting;
DROP TYPE step_state, task_state;
