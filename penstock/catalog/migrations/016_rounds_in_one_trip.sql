-- What a commit begins with: its lease's epoch is checked, its attempt ended and its number taken. It fails where it may
-- not go on, so that what is sent behind it need not wait for an answer: currval('round_number') is its number.
CREATE FUNCTION take_round(of_lease text, in_epoch bigint, of_attempt bigint, for_purpose text)
RETURNS TABLE (round bigint, attempt bigint) LANGUAGE plpgsql SET search_path = penstock AS $$
BEGIN
    PERFORM FROM leases WHERE name = of_lease AND epoch = in_epoch FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease % is in another epoch', of_lease USING ERRCODE = 'PS001';
    END IF;
    IF of_attempt IS NULL THEN
        INSERT INTO attempts (lease, epoch, purpose, state) VALUES (of_lease, in_epoch, for_purpose, 'committed')
        RETURNING id INTO of_attempt;
    ELSE
        UPDATE attempts SET state = 'committed' WHERE id = of_attempt AND state = 'open';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'attempt % of % is over', of_attempt, of_lease USING ERRCODE = 'PS002';
        END IF;
    END IF;
    INSERT INTO rounds (id, attempt_id, purpose) VALUES (nextval('round_number'), of_attempt, for_purpose);
    RETURN QUERY SELECT currval('round_number'), of_attempt;
END $$;

-- The event of a refresh says where the stream table is now, so that nobody has to ask; a notification has 8,000 bytes.
CREATE OR REPLACE FUNCTION tell_refresh() RETURNS trigger LANGUAGE plpgsql SET search_path = penstock AS $$
BEGIN
    PERFORM pg_notify('penstock_alert', jsonb_strip_nulls(jsonb_build_object(
        'event', CASE WHEN NEW.action = 'SKIP' THEN 'refresh_skipped' WHEN NEW.error IS NULL THEN 'refresh_completed'
                      ELSE 'refresh_failed' END,
        'subject', (SELECT name FROM relations WHERE id = NEW.relation_id),
        'action', NEW.action, 'reason', left(NEW.reason, 500), 'inserted', NEW.inserted, 'deleted', NEW.deleted,
        'seconds', NEW.seconds, 'round', NEW.round, 'initiated_by', NEW.initiated_by,
        'frontier', CASE WHEN length(NEW.frontier::text) < 4000 THEN NEW.frontier END,
        'error', left(NEW.error, 1000), 'at', NEW.finished_at))::text);
    RETURN NULL;
END $$;
