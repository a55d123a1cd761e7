"""What a slot's columns mean for somebody on call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.capture.health import Metrics, assess
from penstock.capture.heartbeat import ServerHeartbeat
from penstock.capture.slot import SlotStatus
from penstock.lsn import Lsn

GOOD = SlotStatus("pgoutput", "shop", True, 7, Lsn(800), Lsn(900), "reserved", 4100, 4200)


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({}, "ok", "keeps up"),
        ({"wal_status": None}, "ok", "keeps up"),
        ({"lag_bytes": 5001}, "warning", "5,001 bytes behind"),
        ({"retained_bytes": 5001}, "warning", "keep 5,001 bytes"),
        ({"wal_status": "extended"}, "ok", "keeps up"),
        ({"wal_status": "extended", "safe_wal_bytes": 99}, "warning", "99 bytes may be written"),
        ({"wal_status": "unreserved"}, "warning", "about to drop WAL"),
        ({"wal_status": "lost"}, "failed", "max_slot_wal_keep_size"),
        ({"restart_lsn": None}, "failed", "no position"),
        ({"conflicting": True}, "failed", "conflicted with recovery"),
        ({"invalidation_reason": "rows_removed"}, "failed", "hot_standby_feedback"),
        ({"invalidation_reason": "wal_level_insufficient"}, "failed", "wal_level=logical"),
        ({"invalidation_reason": "idle_timeout"}, "failed", "idle_replication_slot_timeout"),
        ({"invalidation_reason": "something_new"}, "failed", "something_new"),
    ],
)
def test_a_slot_is_judged_by_what_the_server_shows(change, status, said):
    health = assess("streaming", "s", replace(GOOD, **change), 5000)
    assert (health.status, said in health.message) == (status, True), health.message


def test_a_slot_that_is_gone_has_failed():
    assert assess("streaming", "s", None, 5000).status == "failed"


def test_events_are_counted_by_kind_and_metrics_are_plain_numbers():
    metrics = Metrics().with_events({"I": 3, "U": 2}, last=10).with_events({"D": 1, "T": 1}, last=5)
    metrics = replace(metrics, server_lsn=Lsn(500), confirmed_lsn=Lsn(400))
    told = metrics.as_mapping()
    assert (told["inserts"], told["updates"], told["deletes"], told["truncates"], told["events_total"]) == (
        3,
        2,
        1,
        1,
        7,
    )
    assert (told["last_event_time"], told["replication_lag_bytes"]) == (10, 100)
    assert {type(value) for value in told.values()} == {int}


def test_a_heartbeat_is_for_a_slot_that_stands_while_the_server_writes():
    beat = ServerHeartbeat(interval=0.0001)
    assert not beat.needs_message(Lsn(1000), Lsn(1 << 20))  # seen for the first time: it may be moving
    assert beat.needs_message(Lsn(1000), Lsn(1 << 20))
    assert not beat.needs_message(Lsn(1001), Lsn(1 << 20))
    assert not beat.needs_message(Lsn(1001), Lsn(2000))  # nothing to speak of was written
    assert not ServerHeartbeat(interval=60).is_due()
    assert not ServerHeartbeat(interval=1e-9, enabled=False).is_due()
