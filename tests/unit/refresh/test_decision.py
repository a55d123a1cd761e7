"""What a refresh does is a function of its situation, and every decision says why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cut import Frontier
from penstock.refresh.costs import Costs
from penstock.refresh.decision import Action, Mode, Situation, decide

OLD, NEW = Frontier(shop=10), Frontier(shop=20)
MOVED = Situation(Mode.AUTO, OLD, NEW, changed_rows=1000, input_rows=100_000)


@pytest.mark.parametrize(
    ("now", "action", "reason"),
    [
        (replace(MOVED, skip="suspended by hand"), Action.SKIP, "suspended by hand"),
        (replace(MOVED, frontier=None), Action.FULL, "first refresh"),
        (replace(MOVED, mode=Mode.DIFFERENTIAL, frontier=None), Action.FULL, "first refresh"),
        (replace(MOVED, reinitialize="a was copied again"), Action.REINITIALIZE, "a was copied again"),
        (replace(MOVED, frontier=NEW, reinitialize="altered"), Action.REINITIALIZE, "altered"),
        (replace(MOVED, frontier=NEW), Action.NO_DATA, "already at this frontier"),
        (replace(MOVED, changed_rows=0, mode=Mode.FULL), Action.NO_DATA, "no input changed"),
        (replace(MOVED, mode=Mode.FULL), Action.FULL, "mode FULL"),
        (MOVED, Action.DIFFERENTIAL, "1,000 changed rows"),
        (replace(MOVED, changed_rows=5_000, input_rows=5_000), Action.DIFFERENTIAL, "5,000 changed rows"),
        (replace(MOVED, changed_rows=15_001), Action.FULL, "15% of the inputs' rows changed, more than 15%"),
        (replace(MOVED, changed_rows=15_000), Action.DIFFERENTIAL, "15,000 changed rows"),
        (replace(MOVED, changed_rows=90, input_rows=100), Action.DIFFERENTIAL, "90 changed rows"),
        (
            replace(MOVED, changed_rows=15_001, max_change_ratio=0.5),
            Action.DIFFERENTIAL,
            "15,001 changed rows",
        ),
        (
            replace(MOVED, mode=Mode.DIFFERENTIAL, changed_rows=99_999),
            Action.DIFFERENTIAL,
            "99,999 changed rows",
        ),
        (
            replace(MOVED, costs=Costs((1.0,), ((1000, 9.0),))),
            Action.FULL,
            "1,000 changed rows: 9.0 s expected by difference, a full one took 1.0 s",
        ),
        (
            replace(MOVED, changed_rows=50_000, costs=Costs((9.0,), ((40_000, 1.0),))),
            Action.DIFFERENTIAL,
            "50,000 changed rows: 1.2 s expected by difference, a full one took 9.0 s",
        ),
        (replace(MOVED, costs=Costs((1.0,), ((1000, 1.5),))), Action.DIFFERENTIAL, "1,000 changed rows"),
    ],
)
def test_a_decision_and_its_reason(now: Situation, action: Action, reason: str) -> None:
    made = decide(now)
    assert (made.action, made.reason) == (action, reason)


@given(
    st.builds(
        Situation,
        mode=st.sampled_from(Mode),
        frontier=st.sampled_from([None, OLD, NEW]),
        target=st.just(NEW),
        changed_rows=st.integers(0, 10**9),
        input_rows=st.integers(0, 10**9),
        reinitialize=st.sampled_from([None, "marked"]),
        skip=st.sampled_from([None, "held"]),
        costs=st.builds(
            Costs,
            st.lists(st.floats(0, 1e4), max_size=3).map(tuple),
            st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1e4)), max_size=3).map(tuple),
        ),
        max_change_ratio=st.floats(0, 1),
    )
)
def test_laws_of_every_decision(now: Situation) -> None:
    made = decide(now)
    assert made.reason
    assert (made.action is Action.SKIP) == (now.skip is not None)
    if made.action is Action.DIFFERENTIAL:
        assert now.frontier is not None, "a difference without a baseline"
        assert now.reinitialize is None
        assert now.mode is not Mode.FULL
        assert now.changed_rows > 0
    if made.action is Action.NO_DATA:
        assert now.frontier == now.target or now.changed_rows == 0
        assert now.reinitialize is None
    if now.mode is Mode.DIFFERENTIAL and now.frontier is not None:
        assert made.action is not Action.FULL
    assert decide(now) == made


@given(st.integers(0, 10**6), st.floats(0.01, 1e3))
def test_costs_that_led_to_full_refreshes_are_given_up(rows: int, seconds: float) -> None:
    """When only full refreshes are known, nothing is: the share of changed rows decides again."""
    assert Costs((seconds,) * 20, ()).compare(rows) is None
