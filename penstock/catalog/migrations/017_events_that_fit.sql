-- A notification has 8,000 bytes: what counts is the whole of it, and the frontier is what it can do without.
CREATE OR REPLACE FUNCTION tell_refresh() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
DECLARE
    told jsonb := jsonb_strip_nulls(jsonb_build_object(
        'event', CASE WHEN NEW.action = 'SKIP' THEN 'refresh_skipped' WHEN NEW.error IS NULL THEN 'refresh_completed'
                      ELSE 'refresh_failed' END,
        'subject', (SELECT name FROM relations WHERE id = NEW.relation_id),
        'action', NEW.action, 'reason', left(NEW.reason, 500), 'inserted', NEW.inserted, 'deleted', NEW.deleted,
        'seconds', NEW.seconds, 'round', NEW.round, 'frontier', NEW.frontier, 'initiated_by', NEW.initiated_by,
        'error', left(NEW.error, 1000), 'at', NEW.finished_at));
BEGIN
    PERFORM pg_notify('penstock_alert', (CASE WHEN octet_length(told::text) < 7900 THEN told ELSE told - 'frontier' END)::text);
    RETURN NULL;
END $$;
