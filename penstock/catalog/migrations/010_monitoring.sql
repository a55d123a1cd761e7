-- What people and programs may look at: views without passwords, and events for whoever listens.

-- The age of what a stream table shows is counted from `data_timestamp`: everything that was committed by then is in it.
-- That is when its last refresh began; or, where nothing came since, when capture last looked.
CREATE VIEW stream_tables_info AS
SELECT r.name, t.status, t.status_reason, t.suspended_by, t.mode, t.schedule, t.dialect, t.cdc_mode,
       t.written AS query, f.round IS NOT NULL AS populated, f.round, f.frontier,
       t.rows_before + coalesce(done.rows, 0) AS rows,
       coalesce(waiting.rows, 0) AS pending_rows,
       fresh.data_timestamp,
       extract(epoch FROM clock_timestamp() - fresh.data_timestamp)::float8 AS staleness,
       every.seconds AS schedule_seconds,
       coalesce(extract(epoch FROM clock_timestamp() - fresh.data_timestamp) > 2 * every.seconds, false) AS stale,
       last.finished_at AS last_refresh_at, last.action AS last_action, last.reason AS last_reason,
       last.seconds AS last_seconds, last.error AS last_error,
       t.consecutive_errors, t.retry_at, t.reinit_reason, t.created_at
FROM stream_tables t
JOIN relations r ON r.id = t.relation_id
LEFT JOIN LATERAL (SELECT round, frontier FROM frontiers WHERE relation_id = t.relation_id
                   ORDER BY round DESC LIMIT 1) f ON true
LEFT JOIN LATERAL (SELECT * FROM refresh_history WHERE relation_id = t.relation_id ORDER BY id DESC LIMIT 1) last ON true
LEFT JOIN LATERAL (SELECT sum(inserted - deleted)::bigint AS rows FROM refresh_history
                   WHERE relation_id = t.relation_id AND error IS NULL) done ON true
LEFT JOIN LATERAL (
    SELECT bool_and(p.settled <= (cut.value::pg_lsn - '0/0'::pg_lsn)::bigint) AS caught_up, min(p.moved_at) AS looked
    FROM jsonb_each_text(f.frontier) cut JOIN sources s ON s.name = cut.key JOIN positions p ON p.source_id = s.id
) here ON true
LEFT JOIN LATERAL (
    SELECT greatest(
        c.committed_at - coalesce((SELECT max(seconds) FROM refresh_history h
                                   WHERE h.relation_id = t.relation_id AND h.round = f.round), 0) * interval '1 second',
        CASE WHEN here.caught_up THEN here.looked END) AS data_timestamp
    FROM rounds c WHERE c.id = f.round
) fresh ON true
LEFT JOIN LATERAL (  -- what was captured of the tables it reads and is not in it yet
    SELECT sum(g.rows)::bigint AS rows
    FROM dependencies d JOIN relations i ON i.id = d.input_id JOIN sources s ON s.id = i.source_id
    JOIN segments g ON g.relation_id = i.id AND g.form = 'settled'
                   AND g.high > ((f.frontier ->> s.name)::pg_lsn - '0/0'::pg_lsn)::bigint
    WHERE d.view_id = t.relation_id
) waiting ON true
CROSS JOIN LATERAL (
    SELECT CASE WHEN t.schedule ~ '^(\d+[smhd])+$' THEN extract(epoch FROM t.schedule::interval)::float8 END AS seconds
) every;

CREATE VIEW refresh_stats AS
SELECT r.name, count(h.id) AS refreshes,
       count(h.id) FILTER (WHERE h.error IS NULL) AS successful,
       count(h.id) FILTER (WHERE h.error IS NOT NULL AND h.action <> 'SKIP') AS failed,
       count(h.id) FILTER (WHERE h.action = 'NO_DATA') AS no_data,
       count(h.id) FILTER (WHERE h.action = 'DIFFERENTIAL') AS differential,
       count(h.id) FILTER (WHERE h.action = 'FULL') AS "full",
       count(h.id) FILTER (WHERE h.action = 'REINITIALIZE') AS reinitialize,
       count(h.id) FILTER (WHERE h.action = 'SKIP') AS skipped,
       count(h.id) FILTER (WHERE h.initiated_by = 'SCHEDULER') AS scheduled,
       coalesce(sum(h.inserted), 0)::bigint AS rows_inserted, coalesce(sum(h.deleted), 0)::bigint AS rows_deleted,
       coalesce(sum(h.seconds), 0) AS total_seconds,
       avg(h.seconds) FILTER (WHERE h.error IS NULL AND h.action <> 'NO_DATA') AS avg_seconds,
       max(h.seconds) FILTER (WHERE h.error IS NULL) AS max_seconds,
       max(h.finished_at) AS last_refresh_at,
       max(h.finished_at) FILTER (WHERE h.error IS NOT NULL) AS last_error_at,
       t.consecutive_errors
FROM stream_tables t JOIN relations r ON r.id = t.relation_id
LEFT JOIN refresh_history h ON h.relation_id = t.relation_id
GROUP BY r.name, t.consecutive_errors;

CREATE VIEW refresh_log AS
SELECT h.id, r.name AS stream_table, h.round, h.action, h.reason, h.initiated_by, h.changed_rows, h.inserted, h.deleted,
       h.seconds, h.frontier, h.error, h.finished_at - h.seconds * interval '1 second' AS started_at, h.finished_at
FROM refresh_history h JOIN relations r ON r.id = h.relation_id;

CREATE FUNCTION lsn_text(bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT upper(to_hex($1 >> 32)) || '/' || upper(to_hex($1 & 4294967295)) $$;

CREATE VIEW sources_info AS
SELECT s.name, s.state, s.slot, s.publication,
       (SELECT count(*) FROM relations r WHERE r.source_id = s.id AND NOT r.retired) AS tables,
       penstock.lsn_text(p.captured) AS captured, penstock.lsn_text(p.settled) AS readable, p.moved_at,
       (SELECT coalesce(sum(g.rows), 0)::bigint FROM relations r JOIN segments g ON g.relation_id = r.id
        WHERE r.source_id = s.id AND g.waiting) AS waiting_rows,
       (SELECT count(*) FROM copies c WHERE c.source_id = s.id) AS copies, s.created_at
FROM sources s LEFT JOIN positions p ON p.source_id = s.id;

-- How the tables under each stream table are captured: as asked for, and as it is.
CREATE VIEW cdc_status AS
SELECT v.name AS stream_table, s.name AS source, substr(i.name, length(s.name) + 2) AS table_name,
       t.cdc_mode AS requested, 'wal' AS cdc_mode, s.slot, s.publication,
       penstock.lsn_text(p.captured) AS captured, penstock.lsn_text(p.settled) AS readable,
       f.frontier ->> s.name AS shown, p.moved_at
FROM dependencies d
JOIN stream_tables t ON t.relation_id = d.view_id
JOIN relations v ON v.id = d.view_id
JOIN relations i ON i.id = d.input_id
JOIN sources s ON s.id = i.source_id
LEFT JOIN positions p ON p.source_id = s.id
LEFT JOIN LATERAL (SELECT frontier FROM frontiers WHERE relation_id = d.view_id ORDER BY round DESC LIMIT 1) f ON true;

CREATE VIEW dependencies_info AS
SELECT v.name AS stream_table, i.name AS reads, CASE i.kind WHEN 'view' THEN 'stream table' ELSE 'table' END AS kind,
       d.columns
FROM dependencies d JOIN relations v ON v.id = d.view_id JOIN relations i ON i.id = d.input_id;

CREATE VIEW alerts_now AS
SELECT kind, subject, message, hint, raised_at FROM alerts WHERE cleared_at IS NULL;

-- Events on the channel penstock_alert. A NOTIFY is sent with the transaction that makes it so, by whatever code that is.
CREATE FUNCTION tell_refresh() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
BEGIN
    PERFORM pg_notify('penstock_alert', jsonb_strip_nulls(jsonb_build_object(
        'event', CASE WHEN NEW.error IS NULL THEN 'refresh_completed' WHEN NEW.action = 'SKIP' THEN 'refresh_skipped'
                      ELSE 'refresh_failed' END,
        'subject', (SELECT name FROM relations WHERE id = NEW.relation_id),
        'action', NEW.action, 'reason', left(NEW.reason, 500), 'inserted', NEW.inserted, 'deleted', NEW.deleted,
        'seconds', NEW.seconds, 'round', NEW.round, 'initiated_by', NEW.initiated_by,
        'error', left(NEW.error, 1000), 'at', NEW.finished_at))::text);
    RETURN NULL;
END $$;
CREATE TRIGGER tell AFTER INSERT ON refresh_history FOR EACH ROW EXECUTE FUNCTION tell_refresh();

CREATE FUNCTION tell_status() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
DECLARE
    told text[] := array_remove(ARRAY[
        CASE WHEN NEW.status = OLD.status THEN NULL
             WHEN NEW.status = 'ERROR' THEN 'auto_suspended'
             WHEN NEW.status = 'SUSPENDED' THEN 'suspended'
             WHEN OLD.status IN ('ERROR', 'SUSPENDED') THEN 'resumed' END,
        CASE WHEN OLD.reinit_reason IS NULL AND NEW.reinit_reason IS NOT NULL THEN 'reinitialize_needed' END], NULL);
    event text;
BEGIN
    FOREACH event IN ARRAY told LOOP
        PERFORM pg_notify('penstock_alert', jsonb_strip_nulls(jsonb_build_object(
            'event', event, 'subject', (SELECT name FROM relations WHERE id = NEW.relation_id),
            'status', NEW.status, 'errors', NEW.consecutive_errors, 'at', clock_timestamp(),
            'reason', left(CASE event WHEN 'reinitialize_needed' THEN NEW.reinit_reason ELSE NEW.status_reason END, 1000)
        ))::text);
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER tell AFTER UPDATE ON stream_tables FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.reinit_reason IS DISTINCT FROM NEW.reinit_reason)
    EXECUTE FUNCTION tell_status();
