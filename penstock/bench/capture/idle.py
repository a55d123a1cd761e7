"""What a process takes that captures a thousand tables in which nothing happens: its share of one core."""

from __future__ import annotations

import statistics

from penstock.bench.capture import child, contenders
from penstock.bench.capture.ground import Ground
from penstock.bench.figure import Figure

_TABLES, _WINDOWS, _SECONDS, _MOST = 1000, 5, 3.0, 0.01


def figures(ground: Ground) -> list[Figure]:
    tables = ground.rows(_TABLES, least=10)
    with ground.database("idle") as source:
        ground.say(f"{tables:,} idle tables")
        source.execute(
            f"DO $$ BEGIN FOR i IN 1..{tables} LOOP "
            "EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, x text)', i); END LOOP; END $$"
        )
        state = contenders.checkpoint_of_new(source.dsn, "idle", ["public.*"])
        windows, length = str(ground.times(_WINDOWS)), str(ground.seconds(_SECONDS))
        shares: list[float] = child.ask("idle", source.dsn, state.to_json(), windows, length)
    share = statistics.median(shares)
    text = f"{share * 100:.2f}% of a core"
    return [Figure(f"{tables:,} idle tables, CPU of the reading process", text, f"< {_MOST:.0%}", share < _MOST)]
