-- +goose Up

CREATE SEQUENCE event_id_seq;

-- A transaction has its transaction id before it takes an event id. Watchers rely on it: an event id up to M that
-- they cannot see belongs to a transaction that was running when they read M, and nothing else.
-- +goose StatementBegin
CREATE FUNCTION next_event_id() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    RETURN nextval('event_id_seq');
END $$;
-- +goose StatementEnd

CREATE TYPE event_kind AS ENUM ('task_created', 'task_started', 'stage_started', 'step_progress', 'step_finished',
    'stage_finished', 'task_finished', 'task_message');

CREATE TABLE event (
    id             bigint PRIMARY KEY DEFAULT next_event_id(),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind           event_kind NOT NULL,
    task_id        uuid NOT NULL,
    rack_id        uuid NOT NULL,
    state          task_state NOT NULL,
    message        text NOT NULL DEFAULT '',
    stage          integer NOT NULL DEFAULT 0, -- the rule's stage number; 0: the whole task
    stages         integer NOT NULL DEFAULT 0, -- stages in the plan
    component_type text NOT NULL DEFAULT '',
    action         text NOT NULL DEFAULT '',
    total          integer NOT NULL DEFAULT 0,
    completed      integer NOT NULL DEFAULT 0,
    failed         integer NOT NULL DEFAULT 0,
    error          text NOT NULL DEFAULT ''
);
CREATE INDEX event_task_idx ON event (task_id, id);
CREATE INDEX event_rack_idx ON event (rack_id, id);

-- +goose Down
DROP TABLE event;
DROP TYPE event_kind;
DROP FUNCTION next_event_id;
DROP SEQUENCE event_id_seq;
