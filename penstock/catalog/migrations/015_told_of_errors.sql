-- A stream table that failed too often is told of as well, by whatever code found it out.
CREATE OR REPLACE FUNCTION tell_status() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
DECLARE
    told text[] := array_remove(ARRAY[
        CASE WHEN NEW.status = OLD.status THEN NULL
             WHEN NEW.status = 'ERROR' THEN 'auto_suspended'
             WHEN NEW.status = 'SUSPENDED' THEN 'suspended'
             WHEN OLD.status IN ('ERROR', 'SUSPENDED') AND NEW.status <> 'ERROR' THEN 'resumed' END,
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

-- A refresh that was left out is none that was completed, also where nothing is wrong.
CREATE OR REPLACE FUNCTION tell_refresh() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
BEGIN
    PERFORM pg_notify('penstock_alert', jsonb_strip_nulls(jsonb_build_object(
        'event', CASE WHEN NEW.action = 'SKIP' THEN 'refresh_skipped' WHEN NEW.error IS NULL THEN 'refresh_completed'
                      ELSE 'refresh_failed' END,
        'subject', (SELECT name FROM relations WHERE id = NEW.relation_id),
        'action', NEW.action, 'reason', left(NEW.reason, 500), 'inserted', NEW.inserted, 'deleted', NEW.deleted,
        'seconds', NEW.seconds, 'round', NEW.round, 'initiated_by', NEW.initiated_by,
        'error', left(NEW.error, 1000), 'at', NEW.finished_at))::text);
    RETURN NULL;
END $$;

CREATE OR REPLACE VIEW refresh_stats AS
SELECT r.name, count(h.id) AS refreshes,
       count(h.id) FILTER (WHERE h.error IS NULL AND h.action <> 'SKIP') AS successful,
       count(h.id) FILTER (WHERE h.error IS NOT NULL AND h.action <> 'SKIP') AS failed,
       count(h.id) FILTER (WHERE h.action = 'NO_DATA') AS no_data,
       count(h.id) FILTER (WHERE h.action = 'DIFFERENTIAL') AS differential,
       count(h.id) FILTER (WHERE h.action = 'FULL') AS "full",
       count(h.id) FILTER (WHERE h.action = 'REINITIALIZE') AS reinitialize,
       count(h.id) FILTER (WHERE h.action = 'SKIP') AS skipped,
       count(h.id) FILTER (WHERE h.initiated_by = 'SCHEDULER') AS scheduled,
       coalesce(sum(h.inserted), 0)::bigint AS rows_inserted, coalesce(sum(h.deleted), 0)::bigint AS rows_deleted,
       coalesce(sum(h.seconds), 0) AS total_seconds,
       avg(h.seconds) FILTER (WHERE h.error IS NULL AND h.action NOT IN ('NO_DATA', 'SKIP')) AS avg_seconds,
       max(h.seconds) FILTER (WHERE h.error IS NULL) AS max_seconds,
       max(h.finished_at) AS last_refresh_at,
       max(h.finished_at) FILTER (WHERE h.error IS NOT NULL) AS last_error_at,
       t.consecutive_errors
FROM stream_tables t JOIN relations r ON r.id = t.relation_id
LEFT JOIN refresh_history h ON h.relation_id = t.relation_id
GROUP BY r.name, t.consecutive_errors;
