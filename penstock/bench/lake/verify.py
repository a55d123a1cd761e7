"""Verifying a table beside the least that has to be done for it: a count and a sum of row hashes on the source.

Once as it was just copied, and once with 1% of the rows changed since the last publish. Both take turns. A verify takes
its own snapshot, captures up to it and compares; the source's query has as many parallel workers as it plans.
"""

from __future__ import annotations

from rich.console import Console

from penstock.bench.figure import Figure
from penstock.bench.lake.ground import Ground, ground, in_turns, ratio, sized

_ROWS, _SHARE, _MOST, _TURNS = 5_000_000, 100, 3.0, 3


def run(console: Console) -> list[Figure]:
    with ground(console) as there:
        rows = sized(_ROWS, 1000)
        there.make(rows)
        there.db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        there.say("copied")
        there.ps.add_source("shop", there.dsn, tables=["public.t"])
        copied = _compared(there, f"verify of {rows:,} rows, just copied")
        there.ps.publish("t")
        there.change_share(rows, _SHARE, 0)
        there.ps.catch_up()
        return [copied, _compared(there, f"verify of {rows:,} rows, published, then 1% changed")]


def _compared(there: Ground, what: str) -> Figure:
    there.say(what)

    def ours() -> None:
        outcome = there.ps.verify("t")
        assert outcome.ok, str(outcome)
        there.say(f"  ours {outcome.seconds:.2f} s")

    def bare() -> None:
        there.db.execute("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM t").fetchone()

    taken = in_turns({"ours": ours, "bare": bare}, times=_TURNS)
    return ratio(what, taken["ours"], taken["bare"], _MOST, beside="count and sum of hashes on the source")
