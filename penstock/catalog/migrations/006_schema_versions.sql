-- A table keeps its rows while its shape changes: segments and bases each have the version they were written in.

-- What became of the version before, for people to read.
ALTER TABLE schema_versions ADD COLUMN changes text[] NOT NULL DEFAULT '{}';

-- The shape of the Delta table, which may be older than the relation's.
ALTER TABLE bases ADD COLUMN version int NOT NULL DEFAULT 1;

-- What the source's catalog said of the table's storage while the table had its newest shape here.
ALTER TABLE relations ADD COLUMN storage jsonb;

-- A table that is captured no longer, though it is still asked for: up to where it is complete, and why.
ALTER TABLE relations ADD COLUMN ended bigint, ADD COLUMN ended_because text;

-- The shape of an input when the view was made: its plan is over that one.
ALTER TABLE dependencies ADD COLUMN shape jsonb;
UPDATE dependencies d SET shape = (
    SELECT schema FROM schema_versions v WHERE v.relation_id = d.input_id ORDER BY version DESC LIMIT 1);
ALTER TABLE dependencies ALTER COLUMN shape SET NOT NULL;

-- Why a stream table is not refreshed any more; NULL while it is.
ALTER TABLE stream_tables ADD COLUMN suspended text;

-- What happened to a source that its owner should know: changed shapes, tables copied again, left out or gone.
CREATE TABLE source_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id  int NOT NULL REFERENCES sources ON DELETE CASCADE,
    table_name text NOT NULL,
    kind       text NOT NULL,
    detail     text NOT NULL,
    lsn        bigint,
    alert      boolean NOT NULL DEFAULT false,
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON source_events (source_id, id);
