"""A slot is gone on with only where every commit behind the checkpoint will come from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.capture.checkpoint import Checkpoint
from penstock.capture.health import assess
from penstock.capture.slot import Identity, SlotStatus, check_restorable, find_switch
from penstock.errors import SlotLost
from penstock.lsn import Lsn

STATE = Checkpoint("7", 2, "shop", "s", Lsn(1000))
SERVER = Identity("7", 2, Lsn(5000))
SLOT = SlotStatus("pgoutput", "shop", False, None, Lsn(800), Lsn(900), "reserved", 4100, 4200)
HISTORY = "1\t0/3E8\tno recovery target specified\n\n2\t0/7D0\tno recovery target specified\n"


@pytest.mark.parametrize("confirmed", [1, 900, 1000])
def test_a_slot_at_or_behind_the_checkpoint_goes_on(confirmed):
    check_restorable(STATE, "shop", "s", SERVER, replace(SLOT, confirmed_lsn=Lsn(confirmed)), None)


@pytest.mark.parametrize(
    ("server", "slot"),
    [
        (replace(SERVER, system_identifier="8"), SLOT),
        (replace(SERVER, position=Lsn(999)), SLOT),
        (SERVER, None),
        (SERVER, replace(SLOT, confirmed_lsn=Lsn(1001))),
        (SERVER, replace(SLOT, wal_status="lost")),
        (SERVER, replace(SLOT, restart_lsn=None)),
        (SERVER, replace(SLOT, plugin="test_decoding")),
        (SERVER, replace(SLOT, database="other")),
    ],
)
def test_anything_else_is_lost(server, slot):
    with pytest.raises(SlotLost) as lost:
        check_restorable(STATE, "shop", "s", server, slot, None)
    assert lost.value.hint


@pytest.mark.parametrize(("switch", "good"), [(None, False), (999, False), (1000, True), (2000, True)])
def test_a_promoted_server_goes_on_up_to_where_the_timelines_part(switch, good):
    promoted = replace(SERVER, timeline=3)
    at = None if switch is None else Lsn(switch)
    if good:
        check_restorable(STATE, "shop", "s", promoted, SLOT, at)
    else:
        with pytest.raises(SlotLost, match="timeline"):
            check_restorable(STATE, "shop", "s", promoted, SLOT, at)


def test_the_history_file_says_where_a_timeline_ended():
    assert find_switch(HISTORY, 1) == 1000
    assert find_switch(HISTORY, 2) == 2000
    assert find_switch(HISTORY, 3) is None


@pytest.mark.parametrize(
    ("slot", "expected"),
    [
        (None, "failed"),
        (replace(SLOT, wal_status="lost"), "failed"),
        (replace(SLOT, wal_status="unreserved"), "warning"),
        (replace(SLOT, lag_bytes=10_001), "warning"),
        (SLOT, "ok"),
    ],
)
def test_health_follows_the_slot(slot, expected):
    assert assess("streaming", "s", slot, 10_000).status == expected
