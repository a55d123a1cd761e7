"""A stream table is moved by what its state's row says, and by nothing else."""

from __future__ import annotations

import itertools

import pytest

from penstock.errors import ConfigError, NotYet
from penstock.refresh.cdc_mode import checked
from penstock.refresh.define import Wanted
from penstock.refresh.life import MOVES, Event, Status, after, asked


@pytest.mark.parametrize(("status", "event"), itertools.product(Status, Event))
def test_every_pair_of_state_and_event(status: Status, event: Event) -> None:
    if (status, event) not in MOVES:
        with pytest.raises(ConfigError, match=f"that is {status} cannot be {event}"):
            after(status, event)
        return
    assert after(status, event) is MOVES[status, event]


def test_what_the_table_says() -> None:
    """Facts about all rows that a wrong row would break."""
    assert {after(one, Event.HELD) for one in Status} == {Status.SUSPENDED}
    assert {after(one, Event.MISFIT) for one in Status} == {Status.SUSPENDED}
    assert {after(one, Event.REBUILT) for one in Status} == {Status.INITIALIZING}
    assert {after(one, Event.RESUMED, filled=False) for one in Status} == {Status.INITIALIZING}
    assert all(after(one, Event.RESUMED) is not Status.SUSPENDED for one in Status)
    refreshable = {one for one, event in MOVES if event is Event.REFRESHED}
    assert refreshable == set(Status) - {Status.SUSPENDED}
    assert {one for one, event in MOVES if event is Event.FITS} == {Status.SUSPENDED}


def test_a_person_asks_for_active_or_suspended_only() -> None:
    assert (asked("active"), asked("SUSPENDED")) == (Event.RESUMED, Event.HELD)
    with pytest.raises(ConfigError, match="cannot be put into status 'ERROR'"):
        asked("ERROR")


def test_cdc_mode_and_mode_fit_together() -> None:
    assert [checked(one, "AUTO") for one in ("AUTO", "wal", "Trigger", None)] == ["auto", "wal", "trigger", None]
    with pytest.raises(ConfigError, match="no cdc_mode 'stream'"):
        checked("stream", "AUTO")
    with pytest.raises(ConfigError, match="exclude each other") as refused:
        checked("wal", "immediate")
    assert not isinstance(refused.value, NotYet)
    for wish in ("trigger", "auto", None):
        with pytest.raises(NotYet, match="IMMEDIATE"):
            Wanted("SELECT 1", mode="IMMEDIATE", cdc_mode=wish).checked()
