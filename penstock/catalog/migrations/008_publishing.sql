-- When each relation is published, where that was said of it: by name, so that it outlives a table's new copy.
CREATE TABLE publishing (
    relation text PRIMARY KEY,
    pace     text NOT NULL
);

-- What each publish did; `error` where it failed.
CREATE TABLE publish_history (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation_id int NOT NULL REFERENCES relations ON DELETE CASCADE,
    how         text NOT NULL,
    reason      text NOT NULL,
    rows        bigint NOT NULL,
    version     bigint,
    seconds     double precision NOT NULL,
    frontier    jsonb,
    error       text,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON publish_history (relation_id, id);
