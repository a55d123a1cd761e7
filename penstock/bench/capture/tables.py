"""The tables that are measured, and statements that make many rows of them."""

from __future__ import annotations

NARROW = "id bigint PRIMARY KEY, n int, amount numeric(12,2), name text, at timestamptz, note text"
NARROW_ROW = "i, (i % 1000)::int, (i % 1000000) / 7.0, 'customer ' || i, clock_timestamp(), md5(i::text)"

_MORE = (
    ("bigint", "i * {k}"),
    ("int", "(i % {k}000)::int"),
    ("numeric(12,2)", "(i % 100000) / {k}.0"),
    ("text", "'value {k} of ' || i"),
    ("timestamptz", "clock_timestamp()"),
    ("double precision", "i / {k}.0"),
)
_KINDS = [(f"c{k}", *_MORE[k % len(_MORE)]) for k in range(1, 30)]

WIDE = "id bigint PRIMARY KEY, " + ", ".join(f"{name} {kind}" for name, kind, _ in _KINDS)
WIDE_ROW = "i, " + ", ".join(value.format(k=name[1:]) for name, _, value in _KINDS)


def insert(table: str, row: str, first: str | int, last: str | int) -> str:
    """Rows numbered from `first` to `last`."""
    return f"INSERT INTO {table} SELECT {row} FROM generate_series({first}::bigint, {last}::bigint) i;"


def in_transactions(count: int, body: str) -> str:
    """Run `body` in `count` transactions; it sees the number of its own, from 0, as `txn`."""
    return f"DO $$ BEGIN FOR txn IN 0..{count - 1} LOOP {body} COMMIT; END LOOP; END $$"
