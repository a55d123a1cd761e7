-- Every durable fact of a penstock home. One transaction makes a step real; files nobody recorded here do not exist.

CREATE SEQUENCE round_number;

-- Which catalog this is: Delta commits are stamped with it.
CREATE TABLE identity (
    id     uuid NOT NULL DEFAULT gen_random_uuid(),
    single boolean PRIMARY KEY DEFAULT true CHECK (single)
);
INSERT INTO identity DEFAULT VALUES;

CREATE TABLE leases (
    name        text PRIMARY KEY,
    epoch       bigint NOT NULL,
    holder      text NOT NULL,
    acquired_at timestamptz NOT NULL DEFAULT now()
);

-- An attempt is registered before its files are written; only a commit under the same lease epoch makes them count.
CREATE TABLE attempts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lease      text NOT NULL REFERENCES leases,
    epoch      bigint NOT NULL,
    purpose    text NOT NULL,
    state      text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'committed', 'collected')),
    started_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON attempts (lease, epoch) WHERE state = 'open';

CREATE TABLE rounds (
    id           bigint PRIMARY KEY,
    attempt_id   bigint NOT NULL REFERENCES attempts,
    purpose      text NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE sources (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    dsn        text NOT NULL,
    tables     text[] NOT NULL,          -- as the user wrote them
    options    jsonb NOT NULL DEFAULT '{}',
    slot       text NOT NULL,
    publication text NOT NULL,
    state      text NOT NULL CHECK (state IN ('copying', 'streaming')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Where capture goes on after a restart: written only together with the rows that came before it.
CREATE TABLE positions (
    source_id  int PRIMARY KEY REFERENCES sources ON DELETE CASCADE,
    checkpoint jsonb NOT NULL,
    captured   bigint NOT NULL,          -- every commit up to this LSN is in raw or settled segments
    settled    bigint NOT NULL,          -- every commit up to this LSN can be read
    moved_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE relations (
    id        int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      text NOT NULL UNIQUE,
    kind      text NOT NULL CHECK (kind IN ('table', 'view', 'state')),
    source_id int REFERENCES sources ON DELETE CASCADE,
    owner_id  int REFERENCES relations ON DELETE CASCADE,  -- the view whose operator this remembers for
    folder    text NOT NULL UNIQUE,
    CHECK ((kind = 'table') = (source_id IS NOT NULL)),
    CHECK ((kind = 'state') = (owner_id IS NOT NULL))
);

CREATE TABLE schema_versions (
    relation_id   int NOT NULL REFERENCES relations ON DELETE CASCADE,
    version       int NOT NULL,
    from_position bigint NOT NULL,
    schema        jsonb NOT NULL,
    PRIMARY KEY (relation_id, version)
);

-- A position is an LSN for a source table and a round for a view. `low` and `high` are those of the rows inside.
CREATE TABLE segments (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation_id int NOT NULL REFERENCES relations ON DELETE CASCADE,
    attempt_id  bigint NOT NULL REFERENCES attempts,
    round       bigint NOT NULL REFERENCES rounds,
    form        text NOT NULL CHECK (form IN ('raw', 'settled')),
    path        text NOT NULL UNIQUE,
    rows        bigint NOT NULL,
    bytes       bigint NOT NULL,
    low         bigint NOT NULL,
    high        bigint NOT NULL,
    version     int NOT NULL,
    FOREIGN KEY (relation_id, version) REFERENCES schema_versions
);
CREATE INDEX ON segments (relation_id, form, high);

-- The Delta table at `delta_version` equals the relation at `position`.
CREATE TABLE bases (
    relation_id   int NOT NULL REFERENCES relations ON DELETE CASCADE,
    position      bigint NOT NULL,
    delta_version bigint NOT NULL,
    round         bigint NOT NULL REFERENCES rounds,
    rows          bigint NOT NULL,
    PRIMARY KEY (relation_id, position)
);

CREATE TABLE stream_tables (
    relation_id int PRIMARY KEY REFERENCES relations ON DELETE CASCADE,
    query       text NOT NULL,
    dialect     text NOT NULL,
    mode        text NOT NULL,
    schedule    text,
    status      text NOT NULL DEFAULT 'ACTIVE',
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE dependencies (
    view_id  int NOT NULL REFERENCES relations ON DELETE CASCADE,
    input_id int NOT NULL REFERENCES relations,
    columns  text[] NOT NULL,
    PRIMARY KEY (view_id, input_id)
);

-- The frontier a view reached in each of its rounds, also in those without changes.
CREATE TABLE frontiers (
    relation_id int NOT NULL REFERENCES relations ON DELETE CASCADE,
    round       bigint NOT NULL REFERENCES rounds,
    frontier    jsonb NOT NULL,
    PRIMARY KEY (relation_id, round)
);

CREATE TABLE refresh_history (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation_id int NOT NULL REFERENCES relations ON DELETE CASCADE,
    round       bigint REFERENCES rounds,
    action      text NOT NULL,
    reason      text NOT NULL,
    inserted    bigint NOT NULL DEFAULT 0,
    deleted     bigint NOT NULL DEFAULT 0,
    seconds     double precision NOT NULL,
    frontier    jsonb,
    error       text,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON refresh_history (relation_id, id);

CREATE TABLE pins (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    frontier   jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
