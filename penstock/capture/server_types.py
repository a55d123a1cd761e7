"""What the server says of its types: domains followed to their base, arrays to their element, and how each is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.capture.connection import Connection
from penstock.relation.types import PgType

# A type that is never a list of lists stands for itself at most twice: a domain over an array of a domain.
_TYPES = """
WITH RECURSIVE reached AS (
    SELECT t.oid, t.typbasetype, t.typelem FROM pg_type t WHERE t.oid = ANY(%s)
    UNION
    SELECT t.oid, t.typbasetype, t.typelem FROM pg_type t JOIN reached r ON t.oid IN (r.typbasetype, r.typelem)
)
SELECT t.oid::int8, t.typtype::text, t.typbasetype::int8, t.typtypmod, format_type(t.typbasetype, t.typtypmod),
       t.typelem::int8, t.typdelim::text, t.typsend::text
FROM pg_type t JOIN reached r ON r.oid = t.oid
"""
ARRAY_SEND = "array_send"


@dataclass(frozen=True)
class _Row:
    oid: int
    kind: str
    base: int
    base_typmod: int
    base_name: str
    element: int
    delimiter: str
    send: str

    @property
    def is_array(self) -> bool:
        """name, point and the like have elements too, but are no arrays."""
        return self.send.rpartition(".")[2] == ARRAY_SEND and self.element != 0


class ServerTypes:
    """The types of some columns and all that they are made of."""

    def __init__(self, connection: Connection, oids: Iterable[int]) -> None:
        rows = connection.execute(_TYPES.encode(), [list(oids)])
        self._rows = {row[0]: _Row(*row) for row in rows}

    def type(self, oid: int, typmod: int, name: str) -> PgType:
        row = self._rows[oid]
        if row.kind == "d":
            base = self.type(row.base, row.base_typmod, row.base_name).plain
            return PgType(oid, typmod, name, row.kind, base=base)
        return PgType(oid, typmod, name, row.kind, element=self._element(row, typmod, name))

    def send(self, pg: PgType) -> str:
        """The send function; of an array that may be a list, with its element's: `array_send:int4send`."""
        own = self._rows[pg.plain.oid].send
        element = pg.plain.element
        return own if element is None else f"{own}:{self.send(element)}"

    def _element(self, row: _Row, typmod: int, name: str) -> PgType | None:
        if not row.is_array:
            return None
        if self._rows[row.element].delimiter != ",":  # of box only: its array stays text
            return None
        found = self.type(row.element, typmod, name.removesuffix("[]"))
        return None if found.plain.element is not None else found
