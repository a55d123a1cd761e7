-- The changelog describes itself, forgets what nobody needs, and says so before room runs out.

-- What is known of a segment without reading it: its commits' times, its checksum, and ranges of integer columns.
ALTER TABLE segments
    ADD COLUMN first_time timestamptz,
    ADD COLUMN last_time  timestamptz,
    ADD COLUMN checksum   text,
    ADD COLUMN ranges     jsonb NOT NULL DEFAULT '{}';
ALTER TABLE copy_files
    ADD COLUMN first_time timestamptz,
    ADD COLUMN last_time  timestamptz,
    ADD COLUMN checksum   text,
    ADD COLUMN ranges     jsonb NOT NULL DEFAULT '{}';

-- Every file that the catalog forgets, however that came about, until it is removed from disk.
CREATE TABLE dropped_files (
    path        text PRIMARY KEY,
    relation_id int,                     -- NULL: of a copy, which nobody but capture reads
    bytes       bigint NOT NULL,
    dropped_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION note_dropped_segment() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
BEGIN
    INSERT INTO dropped_files (path, relation_id, bytes) VALUES (OLD.path, OLD.relation_id, OLD.bytes)
    ON CONFLICT (path) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER note_dropped AFTER DELETE ON segments FOR EACH ROW EXECUTE FUNCTION note_dropped_segment();

-- A copy that is complete hands its files to the relation.
CREATE FUNCTION note_dropped_copy() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
BEGIN
    INSERT INTO dropped_files (path, bytes)
    SELECT OLD.path, OLD.bytes WHERE NOT EXISTS (SELECT FROM segments WHERE path = OLD.path)
    ON CONFLICT (path) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER note_dropped AFTER DELETE ON copy_files FOR EACH ROW EXECUTE FUNCTION note_dropped_copy();
