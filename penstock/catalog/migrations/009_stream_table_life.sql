-- The life of a stream table: the state it is in and why, what went wrong, and when it was last tried.

ALTER TABLE stream_tables RENAME COLUMN suspended TO status_reason;
ALTER TABLE stream_tables
    ADD COLUMN suspended_by text CHECK (suspended_by IN ('hand', 'inputs')),
    ADD COLUMN written text,             -- the query as it was given; `query` has the views of the source in their places
    ADD COLUMN source_views jsonb NOT NULL DEFAULT '{}', -- those views, by name, as they were defined then
    ADD COLUMN cdc_mode text CHECK (cdc_mode IN ('auto', 'trigger', 'wal')),  -- as asked for; NULL: the home's
    ADD COLUMN consecutive_errors int NOT NULL DEFAULT 0,
    ADD COLUMN reinit_reason text,       -- why its next refresh computes it anew; NULL if it need not
    ADD COLUMN tried_at timestamptz,     -- when its last refresh began, whatever became of it
    ADD COLUMN retry_at timestamptz;     -- not before, after an error
UPDATE stream_tables SET written = query;
UPDATE stream_tables SET suspended_by = 'inputs' WHERE status = 'SUSPENDED';
UPDATE stream_tables t SET status = 'INITIALIZING'
    WHERE status = 'ACTIVE' AND NOT EXISTS (SELECT FROM frontiers f WHERE f.relation_id = t.relation_id);
UPDATE stream_tables t SET tried_at = (
    SELECT max(finished_at) FROM refresh_history h WHERE h.relation_id = t.relation_id);
ALTER TABLE stream_tables
    ALTER COLUMN written SET NOT NULL,
    ALTER COLUMN status SET DEFAULT 'INITIALIZING',
    ADD CHECK (status IN ('INITIALIZING', 'ACTIVE', 'SUSPENDED', 'ERROR')),
    ADD CHECK ((status = 'SUSPENDED') = (suspended_by IS NOT NULL));

-- How much there was to do, and who asked for it.
ALTER TABLE refresh_history
    ADD COLUMN changed_rows bigint,
    ADD COLUMN initiated_by text NOT NULL DEFAULT 'MANUAL' CHECK (initiated_by IN ('MANUAL', 'SCHEDULER', 'INITIAL'));
