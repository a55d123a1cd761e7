"""Whether the log that a slot reads is still the one a checkpoint was taken from, with nothing missing between.

A slot that somebody moved is caught once it is ours: from then on nobody else can move it. A server that was put back
to an older copy of its data keeps its identity and its timeline, and may have written past our position since. Then
only the log itself tells: between the slot's position and the checkpoint there must be the last transaction that gave
us rows, with its time, and none with rows of ours behind it. A slot that stands at the checkpoint was moved there by
us, so there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql

from penstock.capture.checkpoint import Checkpoint, Mark
from penstock.capture.connection import Connection, translated
from penstock.capture.discover import SourceTable
from penstock.capture.messages import PG_EPOCH_MICROS
from penstock.errors import SlotLost
from penstock.lsn import Lsn

# pgoutput's own messages, a line per transaction: its Commit, whether a row of ours changed, its Truncates.
_TRANSACTIONS = """
SELECT (array_agg(data) FILTER (WHERE get_byte(data, 0) = ascii('C')))[1],
       bool_or(get_byte(data, 0) IN (ascii('I'), ascii('U'), ascii('D'))
               AND substring(data FROM 2 FOR 4) = ANY(%(oids)s)),
       COALESCE(array_agg(data) FILTER (WHERE get_byte(data, 0) = ascii('T')), '{}')
FROM pg_logical_slot_peek_binary_changes(%(slot)s, %(upto)s::pg_lsn, NULL,
                                         'proto_version', '1', 'publication_names', %(publication)s)
GROUP BY xid::text
"""


@dataclass(frozen=True)
class Transaction:
    """A commit in the server's log."""

    mark: Mark
    ours: bool  # it changed a captured table


def check_unmoved(slot: str, confirmed: Lsn | None, start: Lsn) -> None:
    """Once the slot is ours: it must not stand past where we go on, because the server would begin there silently."""
    if confirmed is not None and confirmed > start:
        raise SlotLost(
            f"slot {slot} stands at {confirmed}, past the position at {start}: somebody else has read from it, and "
            "changes between them cannot be read any more",
            hint=f"Stop the other consumer. Run `penstock slots recover` for {slot}; the tables are copied again.",
        )


def check_same_log(
    connection: Connection,
    publication: str,
    state: Checkpoint,
    confirmed: Lsn | None,
    tables: Mapping[str, SourceTable],
) -> None:
    """Raise if the server's log up to `state` is not what was read; the slot must be free."""
    if state.mark is None or confirmed is None or confirmed >= state.lsn:
        return
    found = _transactions(connection, publication, state, tables)
    difference = differs(found, state.mark, confirmed, state.lsn)
    if difference:
        raise SlotLost(
            f"the server's log has another history than the one captured: {difference}",
            hint="An older copy of the server was put back, and commits that are captured here are gone from it. Run "
            f"`penstock slots recreate` for {state.slot}; the tables are copied again.",
        )


def differs(found: Iterable[Transaction], mark: Mark, confirmed: Lsn, upto: Lsn) -> str | None:
    """The first thing in the log between the slot's position and the checkpoint that was not so when it was read.

    >>> mark = Mark(Lsn(32), 7)
    >>> differs([Transaction(mark, True)], mark, Lsn(16), Lsn(64)), differs([], mark, Lsn(40), Lsn(64))
    (None, None)
    >>> differs([Transaction(Mark(Lsn(32), 8), True)], mark, Lsn(16), Lsn(64))
    'it lacks the commit at 0/20'
    >>> differs([Transaction(mark, True), Transaction(Mark(Lsn(48), 9), True)], mark, Lsn(16), Lsn(64))
    'it has a commit at 0/30 that was not there'
    """
    seen = list(found)
    if mark.time is not None and mark.lsn > confirmed and all(one.mark != mark for one in seen):
        return f"it lacks the commit at {mark.lsn}"
    later = [one.mark.lsn for one in seen if one.ours and mark.lsn < one.mark.lsn <= upto]
    return f"it has a commit at {min(later)} that was not there" if later else None


def last_mark(tables: Mapping[str, pa.Table]) -> Mark | None:
    """The last transaction of a batch that gave rows."""
    ends = [(table["_lsn"][-1].as_py(), table["_ts"][-1].value) for table in tables.values() if table.num_rows]
    return Mark(Lsn(max(ends)[0]), max(ends)[1]) if ends else None


def _transactions(
    connection: Connection, publication: str, state: Checkpoint, tables: Mapping[str, SourceTable]
) -> list[Transaction]:
    oids = [table.oid.to_bytes(4, "big") for table in tables.values()]
    named = {
        "slot": state.slot,
        "upto": str(state.lsn),
        "publication": sql.Identifier(publication).as_string(connection),
        "oids": oids,
    }
    with translated():
        lines = connection.execute(_TRANSACTIONS, named).fetchall()
    return [
        Transaction(_committed(commit), bool(changed) or any(_truncates(one, oids) for one in truncates))
        for commit, changed, truncates in lines
        if commit is not None
    ]


def _committed(message: bytes) -> Mark:
    """Commit: kind, flags, LSN of the commit, its end, its time."""
    end, time = int.from_bytes(message[10:18], "big"), int.from_bytes(message[18:26], "big", signed=True)
    return Mark(Lsn(end), time + PG_EPOCH_MICROS)


def _truncates(message: bytes, oids: list[bytes]) -> bool:
    """Truncate: kind, number of tables, options, their OIDs."""
    return any(message[at : at + 4] in oids for at in range(6, len(message), 4))
