"""Two streams of changes to TPC-H's tables: orders that come and go with their lines, and updates everywhere."""

from __future__ import annotations

import psycopg

from penstock.bench.tpch.tables import TABLES

Connection = psycopg.Connection[tuple[object, ...]]

# One column of each table that queries compute with.
_TOUCHED = {
    "lineitem": "l_quantity = l_quantity + 1", "orders": "o_totalprice = o_totalprice + 1",
    "partsupp": "ps_supplycost = ps_supplycost + 1", "customer": "c_acctbal = c_acctbal + 1",
    "part": "p_size = 1 + p_size % 50", "supplier": "s_acctbal = s_acctbal + 1",
}  # fmt: skip


_KEYS = 100_000_000  # that new orders of one round may have


class Changes:
    def __init__(self, source: Connection) -> None:
        self._source = source
        self._round = 0

    def orders(self, rows: int) -> None:
        """Half of `rows` leave and half come: orders, about four lines each, with them."""
        self._round += 1
        orders = max(1, rows // 10)
        with self._source.transaction():
            run = self._source.execute
            keys = run("SELECT o_orderkey FROM orders ORDER BY md5(o_orderkey::text || %s) LIMIT %s",
                       (str(self._round), 2 * orders)).fetchall()  # fmt: skip
            leaving, like = [key for (key,) in keys[:orders]], _apart([key for (key,) in keys[orders:]])
            first = (10 + self._round) * _KEYS
            self._copied("orders", "o_orderkey", first, like)
            self._copied("lineitem", "l_orderkey", first, like)
            run("DELETE FROM lineitem WHERE l_orderkey = ANY(%s)", (leaving,))
            run("DELETE FROM orders WHERE o_orderkey = ANY(%s)", (leaving,))

    def _copied(self, table: str, key: str, first: int, like: list[object]) -> None:
        columns = next(found.columns for found in TABLES if found.name == table)
        cells = ", ".join(f"mod({key}, {_KEYS}) + {first}" if name == key else name for name, _ in columns)
        self._source.execute(f"INSERT INTO {table} SELECT {cells} FROM {table} WHERE {key} = ANY(%s)", (like,))

    def updates(self, rows: int) -> None:
        """Rows of all tables, by their sizes."""
        self._round += 1
        sizes = {name: self._size(name) for name in _TOUCHED}
        with self._source.transaction():
            for name, assignment in _TOUCHED.items():
                share = round(rows * sizes[name] / sum(sizes.values()))
                picked = f"SELECT ctid FROM {name} ORDER BY md5(ctid::text || '{self._round}') LIMIT {max(1, share)}"
                self._source.execute(f"UPDATE {name} SET {assignment} WHERE ctid = ANY(ARRAY({picked}))")

    def total(self) -> int:
        return sum(self._size(table.name) for table in TABLES)

    def _size(self, table: str) -> int:
        ((count,),) = self._source.execute(f"SELECT count(*) FROM {table}").fetchall()
        assert isinstance(count, int)
        return count


def _apart(keys: list[object]) -> list[object]:
    """Without those whose copies would have one key: an order, and a copy of it from a round before."""
    return list({key % _KEYS: key for key in keys if isinstance(key, int)}.values())
