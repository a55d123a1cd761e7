"""The peak memory of a process that captures one transaction of five million rows, into a home and through poll.

Once each: it is the peak that counts, not the middle of several.
"""

from __future__ import annotations

from penstock.bench.capture import child, contenders, tables
from penstock.bench.capture.ground import Ground, expect
from penstock.bench.figure import Figure, seconds

_ROWS, _MOST = 5_000_000, 500_000_000


def figures(ground: Ground) -> list[Figure]:
    rows = ground.rows(_ROWS)
    with ground.database("large") as source:
        ground.say(f"one transaction of {rows:,} rows: making it")
        source.execute(f"CREATE TABLE t ({tables.NARROW})")
        contenders.add_to_home(ground, source, "large")
        state = contenders.checkpoint_of_new(source.dsn, "large")
        source.execute(tables.insert("t", tables.NARROW_ROW, 1, rows))
        source.settle_down()
        answers: list[dict[str, int]] = []
        home = seconds(lambda: answers.append(child.ask("into_home", str(ground.home.root), "large")))
        expect("rows in the home", contenders.rows_at_home(ground, "large"), rows)
        ground.say(f"  into the home in {home:.1f} s, {answers[0]['peak'] / 1e6:,.0f} MB")
        poll = seconds(lambda: answers.append(child.ask("poll", source.dsn, state.to_json())))
        expect("rows that poll gave", answers[1]["rows"], rows)
        ground.say(f"  through poll in {poll:.1f} s, {answers[1]['peak'] / 1e6:,.0f} MB")
        ground.captures.remove("large")
    what = f"one transaction of {rows:,} rows, peak memory"
    return [_figure(f"{what}, into a home", answers[0]["peak"]), _figure(f"{what}, through poll", answers[1]["peak"])]


def _figure(what: str, peak: int) -> Figure:
    return Figure(what, f"{peak / 1e6:,.0f} MB", f"< {_MOST / 1e6:g} MB", peak < _MOST)
