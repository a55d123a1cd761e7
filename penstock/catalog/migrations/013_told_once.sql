-- A stream table that failed too often is told of as an alert, with what to do about it: not twice.
CREATE OR REPLACE FUNCTION tell_status() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
DECLARE
    told text[] := array_remove(ARRAY[
        CASE WHEN NEW.status = OLD.status THEN NULL
             WHEN NEW.status = 'SUSPENDED' THEN 'suspended'
             WHEN OLD.status IN ('ERROR', 'SUSPENDED') AND NEW.status <> 'ERROR' THEN 'resumed' END,
        CASE WHEN OLD.reinit_reason IS NULL AND NEW.reinit_reason IS NOT NULL THEN 'reinitialize_needed' END], NULL);
    event text;
BEGIN
    FOREACH event IN ARRAY told LOOP
        PERFORM pg_notify('penstock_alert', jsonb_strip_nulls(jsonb_build_object(
            'event', event, 'subject', (SELECT name FROM relations WHERE id = NEW.relation_id),
            'status', NEW.status, 'at', clock_timestamp(),
            'reason', left(CASE event WHEN 'reinitialize_needed' THEN NEW.reinit_reason ELSE NEW.status_reason END, 1000)
        ))::text);
    END LOOP;
    RETURN NULL;
END $$;
