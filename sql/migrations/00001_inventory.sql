-- +goose Up

-- Names sort by byte order everywhere, so that pages do not depend on the collation a database was made with.

CREATE TABLE nvl_domain (
    id              uuid PRIMARY KEY,
    name            text COLLATE "C",
    external_id     text COLLATE "C",
    nmxc_cluster_id uuid,
    origin          text NOT NULL DEFAULT 'api',
    created_at      timestamptz NOT NULL DEFAULT now(),
    deleted_at      timestamptz,
    CONSTRAINT nvl_domain_origin_check CHECK (origin IN ('api', 'core')),
    CONSTRAINT nvl_domain_name_check CHECK (name <> ''),
    CONSTRAINT nvl_domain_external_id_check CHECK (external_id <> '')
);
-- Tombstones reserve nothing: uniqueness holds among live rows.
CREATE UNIQUE INDEX nvl_domain_name_key ON nvl_domain (name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX nvl_domain_external_id_key ON nvl_domain (external_id) WHERE deleted_at IS NULL;

CREATE TABLE rack (
    id              uuid PRIMARY KEY,
    name            text COLLATE "C" NOT NULL,
    -- Empty means not known and is stored as null, so that such racks never collide.
    manufacturer    text COLLATE "C",
    serial          text COLLATE "C",
    model           text COLLATE "C",
    description     text,
    region          text NOT NULL DEFAULT '',
    datacenter      text NOT NULL DEFAULT '',
    room            text NOT NULL DEFAULT '',
    position        text NOT NULL DEFAULT '',
    external_id     text COLLATE "C",
    rack_profile_id text,
    -- The group the site controller has the rack in; while there is one, it decides the domain.
    rack_group_id   text,
    nvl_domain_id   uuid CONSTRAINT rack_nvl_domain_fkey REFERENCES nvl_domain,
    -- A HealthReport of the API as it goes over the wire: racks are read far more often than reports, and parsing text for
    -- each would be most of the work.
    health          bytea,
    origin          text NOT NULL DEFAULT 'api',
    -- How many tasks wait for the rack. A trigger of task keeps it, so that whoever ends a task, with this row locked,
    -- knows by the same look whether there is one to promote.
    waiting         integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    deleted_at      timestamptz,
    CONSTRAINT rack_waiting_check CHECK (waiting >= 0),
    CONSTRAINT rack_name_check CHECK (char_length(name) BETWEEN 1 AND 255),
    CONSTRAINT rack_manufacturer_check CHECK (manufacturer <> ''),
    CONSTRAINT rack_serial_check CHECK (serial <> ''),
    CONSTRAINT rack_external_id_check CHECK (external_id <> ''),
    CONSTRAINT rack_origin_check CHECK (origin IN ('api', 'core'))
);
CREATE UNIQUE INDEX rack_external_id_key ON rack (external_id) WHERE deleted_at IS NULL;
-- Serial number first: people know that one alone.
CREATE UNIQUE INDEX rack_serial_key ON rack (serial, manufacturer) WHERE deleted_at IS NULL;
CREATE INDEX rack_name_idx ON rack (name, id) WHERE deleted_at IS NULL;
CREATE INDEX rack_waiting_idx ON rack (id) WHERE waiting > 0;
CREATE INDEX rack_nvl_domain_idx ON rack (nvl_domain_id) WHERE deleted_at IS NULL;

CREATE TABLE component (
    id                 uuid PRIMARY KEY,
    type               text COLLATE "C" NOT NULL,
    name               text COLLATE "C" NOT NULL,
    manufacturer       text COLLATE "C",
    serial             text COLLATE "C",
    model              text COLLATE "C",
    description        text,
    firmware_version   text NOT NULL DEFAULT '',
    -- -1 is "not known".
    slot_id            integer NOT NULL DEFAULT -1,
    tray_idx           integer NOT NULL DEFAULT -1,
    host_id            integer NOT NULL DEFAULT -1,
    rack_id            uuid CONSTRAINT component_rack_fkey REFERENCES rack,
    external_id        text COLLATE "C",
    -- What a synchronisation with the site controller last saw; never written by clients.
    power_state        text NOT NULL DEFAULT '',
    phase              text,
    phase_reason       text NOT NULL DEFAULT '',
    phase_at           timestamptz,
    health             bytea, -- as in rack
    leak_status        text NOT NULL DEFAULT 'UNKNOWN',
    last_seen_at       timestamptz,
    origin             text NOT NULL DEFAULT 'api',
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    deleted_at         timestamptz,
    CONSTRAINT component_type_check CHECK (type IN ('Compute', 'NVSwitch', 'PowerShelf', 'ToRSwitch', 'UMS', 'CDU')),
    CONSTRAINT component_position_check CHECK (slot_id >= -1 AND tray_idx >= -1 AND host_id >= -1),
    CONSTRAINT component_manufacturer_check CHECK (manufacturer <> ''),
    CONSTRAINT component_serial_check CHECK (serial <> ''),
    CONSTRAINT component_external_id_check CHECK (external_id <> ''),
    CONSTRAINT component_phase_check CHECK (phase IN ('UNKNOWN', 'INITIALIZING', 'READY', 'IN_USE', 'ERROR', 'DELETING')),
    CONSTRAINT component_leak_status_check CHECK (leak_status IN ('UNKNOWN', 'DETECTED', 'NOT_DETECTED')),
    CONSTRAINT component_origin_check CHECK (origin IN ('api', 'core'))
);
CREATE UNIQUE INDEX component_external_id_key ON component (external_id, type) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX component_serial_key ON component (serial, manufacturer) WHERE deleted_at IS NULL;
-- With all that a list is filtered by, so that what is left out need not be visited; lower(name) saves making it of each.
CREATE INDEX component_name_idx ON component (name, id, lower(name)) INCLUDE (type, manufacturer, model, rack_id)
    WHERE deleted_at IS NULL;
CREATE INDEX component_type_idx ON component (type, manufacturer, name, id) INCLUDE (model, rack_id) WHERE deleted_at IS NULL;
-- The few that hold up what is done to their rack; every disruptive action looks for them.
CREATE INDEX component_unready_idx ON component (rack_id)
    WHERE deleted_at IS NULL AND type = 'Compute' AND phase NOT IN ('READY', 'UNKNOWN');
-- Tombstones too: they go, or come back, with their rack.
CREATE INDEX component_rack_idx ON component (rack_id, name, id);

-- Live components as readers are shown them.
CREATE VIEW live_component AS
SELECT id, type, name, manufacturer, serial, model, description, firmware_version, slot_id, tray_idx, host_id, rack_id,
    external_id, power_state, phase, phase_reason, health, leak_status
FROM component
WHERE deleted_at IS NULL;

-- A MAC exists once on the site. A tombstone loses its BMC row to a live component that reports the same MAC.
CREATE TABLE bmc (
    mac          macaddr PRIMARY KEY,
    type         text NOT NULL,
    component_id uuid NOT NULL CONSTRAINT bmc_component_fkey REFERENCES component ON DELETE CASCADE,
    -- That of the component: the BMCs of whole racks are read by it, since ids of components lie anywhere in an index.
    rack_id      uuid,
    ip           inet,
    CONSTRAINT bmc_type_check CHECK (type IN ('HOST', 'DPU'))
);
-- With all that a list of components shows of them, so that it need not visit the table.
CREATE INDEX bmc_component_idx ON bmc (component_id) INCLUDE (mac, type, ip);
CREATE INDEX bmc_rack_idx ON bmc (rack_id) INCLUDE (component_id, mac, type, ip);

-- +goose StatementBegin
CREATE FUNCTION bmc_follow_component() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE bmc SET rack_id = NEW.rack_id WHERE component_id = NEW.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER bmc_follow_component AFTER UPDATE OF rack_id ON component
    FOR EACH ROW WHEN (OLD.rack_id IS DISTINCT FROM NEW.rack_id) EXECUTE FUNCTION bmc_follow_component();

-- What the last comparison of expected and actual inventory found; replaced type by type, read by ValidateComponents.
CREATE TABLE drift (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind             text NOT NULL,
    -- Null for what nobody expects; that is known by type and external id.
    component_id     uuid CONSTRAINT drift_component_fkey REFERENCES component ON DELETE CASCADE,
    type             text COLLATE "C" NOT NULL,
    external_id      text COLLATE "C",
    -- The external id of the rack that an unexpected object was reported in.
    rack_external_id text COLLATE "C",
    -- [{"name": "slot_id", "expected": "3", "actual": "4"}]
    field_diffs      jsonb NOT NULL DEFAULT '[]',
    CONSTRAINT drift_kind_check CHECK (kind IN ('missing_in_actual', 'missing_in_expected', 'mismatch')),
    CONSTRAINT drift_reference_check CHECK (
        CASE WHEN kind = 'missing_in_expected' THEN component_id IS NULL AND external_id IS NOT NULL
            ELSE component_id IS NOT NULL END),
    CONSTRAINT drift_type_check CHECK (type IN ('Compute', 'NVSwitch', 'PowerShelf'))
);
CREATE UNIQUE INDEX drift_component_key ON drift (component_id, kind);
CREATE UNIQUE INDEX drift_external_id_key ON drift (type, external_id) WHERE component_id IS NULL;
CREATE INDEX drift_rack_idx ON drift (rack_external_id) WHERE component_id IS NULL;

-- When each type was last compared.
CREATE TABLE drift_check (
    type       text PRIMARY KEY,
    checked_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT drift_check_type_check CHECK (type IN ('Compute', 'NVSwitch', 'PowerShelf'))
);

CREATE TABLE operation_rule (
    id             uuid PRIMARY KEY,
    name           text NOT NULL,
    description    text NOT NULL DEFAULT '',
    operation_type text NOT NULL,
    operation_code text NOT NULL,
    definition     jsonb NOT NULL,
    is_default     boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT operation_rule_name_check CHECK (char_length(name) BETWEEN 1 AND 128),
    CONSTRAINT operation_rule_type_check CHECK (operation_type IN ('power_control', 'firmware_control'))
);
CREATE UNIQUE INDEX operation_rule_default_key ON operation_rule (operation_type, operation_code) WHERE is_default;
CREATE INDEX operation_rule_created_idx ON operation_rule (created_at DESC, id DESC);

CREATE TABLE rack_rule (
    rack_id        uuid NOT NULL CONSTRAINT rack_rule_rack_fkey REFERENCES rack ON DELETE CASCADE,
    operation_type text NOT NULL,
    operation_code text NOT NULL,
    rule_id        uuid NOT NULL CONSTRAINT rack_rule_rule_fkey REFERENCES operation_rule ON DELETE CASCADE,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (rack_id, operation_type, operation_code)
);
CREATE INDEX rack_rule_rule_idx ON rack_rule (rule_id);

-- +goose Down
DROP VIEW live_component;
DROP TABLE rack_rule, operation_rule, drift_check, drift, bmc, component, rack, nvl_domain;
DROP FUNCTION bmc_follow_component;
