-- What was before `retained` cannot be read any more: its segments may be gone. All later ones are there.
ALTER TABLE relations ADD COLUMN retained bigint NOT NULL DEFAULT -1;

-- What refreshes put in, less what they took out, of which the history is gone.
ALTER TABLE stream_tables ADD COLUMN rows_before bigint NOT NULL DEFAULT 0;

-- What a person should know, from the moment it is so until it is not. Each is also sent to the channel penstock_alert.
CREATE TABLE alerts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text NOT NULL,
    subject    text NOT NULL,
    message    text NOT NULL,
    hint       text NOT NULL,
    raised_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    cleared_at timestamptz
);
CREATE UNIQUE INDEX ON alerts (kind, subject) WHERE cleared_at IS NULL;

-- Rounds and attempts go when nothing refers to them: each reference is looked up.
CREATE INDEX ON segments (round);
CREATE INDEX ON segments (attempt_id);
CREATE INDEX ON copy_files (round);
CREATE INDEX ON copy_files (attempt_id);
CREATE INDEX ON bases (round);
CREATE INDEX ON frontiers (round);
CREATE INDEX ON refresh_history (round);
CREATE INDEX ON rounds (attempt_id);
