-- The part of River's schema that our queries touch, for sqlc only: River's own migrations make the table.
CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running',
    'scheduled');
CREATE TABLE river_job (
    id           bigint PRIMARY KEY,
    state        river_job_state NOT NULL,
    attempted_by text[]
);
CREATE TABLE river_leader (leader_id text NOT NULL, name text PRIMARY KEY);
