-- Tables join a source while it streams: a table that is being copied is not a relation yet.

-- A captured segment waits until it is settled; a table that joins late has some from before the source's settled cut.
ALTER TABLE segments ADD COLUMN waiting boolean NOT NULL DEFAULT false;
UPDATE segments s SET waiting = true
FROM relations r JOIN positions p ON p.source_id = r.source_id
WHERE r.id = s.relation_id AND s.form = 'raw' AND s.high > p.settled;
CREATE INDEX ON segments (relation_id) WHERE waiting;

-- A table that is copied again leaves at once; whoever is still reading it may do so until capture is opened anew.
ALTER TABLE relations ADD COLUMN retired boolean NOT NULL DEFAULT false;

CREATE TABLE copies (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id int NOT NULL REFERENCES sources ON DELETE CASCADE,
    name      text NOT NULL,                                      -- schema.table
    replaces  int REFERENCES relations ON DELETE SET NULL,        -- what it is a new copy of
    lsn       bigint,                                             -- of the newest snapshot; NULL before the first
    storage   text,                                               -- changes when the table is rewritten
    schema    jsonb,
    UNIQUE (source_id, name)
);

-- `lsn` is that of the snapshot the range was copied under, NULL until it is durable here.
CREATE TABLE copy_ranges (
    copy_id   bigint NOT NULL REFERENCES copies ON DELETE CASCADE,
    number    int NOT NULL,
    by_column text NOT NULL,
    low       bigint,
    high      bigint,
    lsn       bigint,
    PRIMARY KEY (copy_id, number)
);

-- `kind`: rows of a range, changes that were streamed meanwhile, or the correction of ranges of older snapshots.
CREATE TABLE copy_files (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    copy_id    bigint NOT NULL REFERENCES copies ON DELETE CASCADE,
    kind       text NOT NULL CHECK (kind IN ('range', 'change', 'correction')),
    attempt_id bigint NOT NULL REFERENCES attempts,
    round      bigint NOT NULL REFERENCES rounds,
    form       text NOT NULL CHECK (form IN ('raw', 'settled')),
    path       text NOT NULL UNIQUE,
    rows       bigint NOT NULL,
    bytes      bigint NOT NULL,
    low        bigint NOT NULL,
    high       bigint NOT NULL,
    version    int NOT NULL
);
CREATE INDEX ON copy_files (copy_id);
