-- Foreign keys of a source that were seen to hold, from cut `since` to cut `until`. `identity` changes with the constraint
-- and with its triggers; one that is not seen any more goes.
CREATE TABLE foreign_keys (
    source_id int NOT NULL REFERENCES sources ON DELETE CASCADE,
    identity  text NOT NULL,
    child     text NOT NULL,
    columns   text[] NOT NULL,
    parent    text NOT NULL,
    parent_columns text[] NOT NULL,
    since     bigint NOT NULL,
    until     bigint NOT NULL,
    PRIMARY KEY (source_id, identity)
);
