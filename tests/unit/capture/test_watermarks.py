"""A watermark never goes back, and an idle table holds back nobody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.capture.watermarks import Watermarks


def test_tables_move_by_their_own_commits_and_idle_ones_by_the_server():
    marks = Watermarks.of(["a", "b"], idle_timeout=10, now=0)
    assert marks.source is None
    marks = marks.delivered({"a": (100, 1)})
    assert (marks.tables["a"].time, marks.tables["b"].time, marks.source) == (100, None, None)
    marks = marks.caught_up(500, now=9.9)
    assert marks.source is None
    marks = marks.caught_up(600, now=10)  # b is idle, a changed 9 seconds ago
    assert (marks.tables["a"].idle, marks.tables["b"].idle, marks.source) == (False, True, 100)
    marks = marks.caught_up(700, now=30).delivered({"b": (650, 31)})
    assert (marks.tables["a"].time, marks.tables["b"].time, marks.source) == (700, 700, 700)
    assert (marks.tables["a"].idle, marks.tables["b"].idle) == (True, False)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from("abc"), st.integers(0, 1000)),
        st.tuples(st.just("server"), st.just(""), st.integers(0, 1000)),
    )
)


@given(STEPS)
def test_no_watermark_goes_back_and_the_source_is_the_least(steps):
    marks = Watermarks.of("abc", idle_timeout=3, now=0)
    for now, (kind, table, time) in enumerate(steps):
        before = marks
        marks = marks.delivered({table: (time, now)}) if kind == "commit" else marks.caught_up(time, now)
        for name, mark in marks.tables.items():
            assert (before.tables[name].time or 0) <= (mark.time or 0)
        times = [mark.time for mark in marks.tables.values()]
        assert marks.source == (None if None in times else min(times))
