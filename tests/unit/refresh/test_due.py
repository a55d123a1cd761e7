"""When stream tables are due: by what the catalog says of them and the time alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, PenstockError, RefreshError, StorageFull
from penstock.refresh.dag import check_acyclic, downstream_of, independent, reachable, upstream_first
from penstock.refresh.due import Candidate, aligned, is_due
from penstock.refresh.retry import judge
from penstock.refresh.schedule import Canonical, Cron, OnCommit, Schedule, canonical, parse

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
FRESH = Candidate("v", Schedule(60), "ACTIVE", tried_at=NOON, changed=True, behind=True)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("one", "seconds", "due"),
    [
        (FRESH, 59, False),
        (FRESH, 60, True),
        (replace(FRESH, changed=False), 60, True),  # its frontier moves
        (replace(FRESH, changed=False, behind=False), 1e6, False),  # nothing can have happened
        (replace(FRESH, tried_at=None, status="INITIALIZING"), 0, True),
        (replace(FRESH, when=parse(None)), 1e6, False),
        (replace(FRESH, status="ERROR"), 1e6, False),
        (replace(FRESH, status="SUSPENDED", held=True), 1e6, False),
        (replace(FRESH, status="SUSPENDED"), 9, False),
        (replace(FRESH, status="SUSPENDED"), 10, True),  # it may fit again
        (replace(FRESH, when=OnCommit(), blocked=True), 9, False),
        (replace(FRESH, when=OnCommit(), blocked=True), 10, True),  # to say why it is skipped
        (replace(FRESH, retry_at=after(90)), 61, False),
        (replace(FRESH, retry_at=after(90)), 90, True),
        (replace(FRESH, when=OnCommit()), 0.01, True),
        (replace(FRESH, when=OnCommit(2.0)), 1.9, False),
        (replace(FRESH, when=OnCommit(2.0)), 2.0, True),
        (replace(FRESH, when=OnCommit(), changed=False), 0.9, False),
        (replace(FRESH, when=OnCommit(), changed=False), 1.0, True),
        (replace(FRESH, when=Cron("*/5 * * * *")), 299, False),
        (replace(FRESH, when=Cron("*/5 * * * *")), 300, True),
        (replace(FRESH, when=Cron("0 0 30 2 *")), 1e6, False),  # there is no such day
        (replace(FRESH, when=Canonical(48.0)), 47, True),  # noon is 0 s after a multiple of 192 s, not of 48 s
    ],
)
def test_due_or_not(one: Candidate, seconds: float, due: bool) -> None:
    if isinstance(one.when, Canonical):
        seconds, due = (48.0 - NOON.timestamp() % 48.0) + 0.01, True
        assert not is_due(one, after(seconds - 0.02))
    assert is_due(one, after(seconds)) is due


def test_the_gap_of_the_home_is_for_those_that_name_none() -> None:
    assert not is_due(replace(FRESH, when=OnCommit()), after(4), gap=5.0)
    assert is_due(replace(FRESH, when=OnCommit(1.0)), after(4), gap=5.0)


@given(st.sampled_from([Schedule(60), Canonical(48.0), Cron("*/5 * * * *"), OnCommit()]), st.floats(0, 1e7))
def test_an_outage_is_caught_up_with_once(when: object, seconds: float) -> None:
    one = replace(FRESH, when=when)
    now = after(seconds)
    if is_due(one, now):
        again = replace(one, tried_at=now, changed=False, behind=False)
        assert not is_due(again, now)


@given(st.integers(1, 30 * 86400))
def test_canonical_periods_are_not_longer_than_asked_and_meet(seconds: int) -> None:
    period = canonical(seconds)
    assert seconds / 2 < period <= seconds
    longer = canonical(2 * seconds)
    assert longer == 2 * period
    assert isinstance(aligned(Schedule(seconds)), Canonical)


@pytest.mark.parametrize(
    "text", ["", "5", "5 minutes", "-5s", "0s", "* * * *", "61 * * * *", "on-commit soon", "@often"]
)
def test_what_is_not_a_schedule_is_said(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert refused.value.hint


@given(st.lists(st.booleans(), max_size=8), st.integers(1, 5))
def test_errors_in_a_row(passing: list[bool], limit: int) -> None:
    """Those that may pass never suspend it; the others do exactly at the limit. No pause is longer than a minute."""
    errors = passed = 0
    for passes in passing:
        error: PenstockError = StorageFull("full") if passes else RefreshError("no")
        verdict = judge(error, errors, passed, limit)
        assert 1.0 <= verdict.wait <= 60.0
        assert verdict.last == (not passes and errors + 1 >= limit)
        assert verdict.errors == errors + (not passes)
        errors, passed = verdict.errors, passed + passes


names = st.sampled_from("abcdefgh")
graphs = st.dictionaries(names, st.lists(names, max_size=3, unique=True))


@given(graphs)
def test_orders_and_circles(inputs: dict[str, list[str]]) -> None:
    circular = [name for name in inputs if name in reachable(inputs[name], inputs)]
    if circular:
        with pytest.raises(ConfigError) as refused:
            check_acyclic(inputs)
        way = refused.value.message.partition(": ")[2].split(" → ")
        assert way[0] == way[-1]
        assert all(b in inputs[a] for a, b in pairwise(way)), "not a way through the graph"
        return
    check_acyclic(inputs)
    order = upstream_first(inputs, inputs)
    assert sorted(order) == sorted(inputs)
    for name in inputs:
        assert all(order.index(one) < order.index(name) for one in inputs[name] if one in inputs)
        assert downstream_of([name], inputs) == {one for one in inputs if name in reachable(inputs[one], inputs)}
    groups = independent(sorted(inputs), inputs)
    assert sorted(one for group in groups for one in group) == sorted(inputs)
    needs = [set(upstream_first(group, inputs)) for group in groups]
    assert sum(map(len, needs)) == len(set().union(*needs)), "two groups share a view"
