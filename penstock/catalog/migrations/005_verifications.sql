-- What verify found, one line a verification. Differences are counted by relation; rows are not kept here.
CREATE TABLE verifications (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    subject     text,                       -- a source or a relation; NULL is everything
    frontier    jsonb,
    rows        jsonb NOT NULL DEFAULT '{}', -- compared, by relation
    differences jsonb NOT NULL DEFAULT '{}', -- rows that differ, by relation
    repaired    jsonb NOT NULL DEFAULT '{}', -- what was done about them, by relation
    seconds     double precision NOT NULL,
    scheduled   boolean NOT NULL DEFAULT false,
    error       text
);
