"""An idle round costs the same however many tables there are: nothing is asked per table, here or of the source."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import penstock
from penstock.catalog.store import Catalog
from penstock.lake.settling import settle_source

pytestmark = pytest.mark.since(11, "a source needs no option about TRUNCATE")


def test_an_idle_round_asks_nothing_per_table(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for name in ("one", "all"):
        real = getattr(Catalog, name)

        def counted(self: Catalog, query: Any, *given: Any, real: Any = real) -> Any:
            asked.append(query)
            return real(self, query, *given)

        monkeypatch.setattr(Catalog, name, counted)

    def queries() -> int:
        ps.catch_up()
        asked.clear()
        lease = ps.engine.captures.catch_up("shop", finish=False)
        settle_source(ps.engine.reader, ps.catalog, lease, "shop")
        return len(asked)

    def make(first: int, last: int) -> None:
        with psycopg.connect(source_db, autocommit=True) as db:
            for number in range(first, last):
                db.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY)")

    make(0, 2)
    ps.add_source("shop", source_db, tables=["public.*"])
    few = queries()
    make(2, 14)
    assert queries() == few
    assert len(ps.status().sources[0].tables) == 14
