"""PostgreSQL itself says what a query's columns are: the statement is prepared and described, never run.

Tables are stood in for by subqueries of typed NULLs, so the server needs none of them and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from psycopg import pq
from sqlglot import exp

from penstock.errors import CatalogError, InvalidQuery
from penstock.relation.types import FIRST_USER_OID, PgType

_NAMES = {
    16: "boolean", 17: "bytea", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 700: "real",
    701: "double precision", 1082: "date", 1114: "timestamp", 1184: "timestamptz", 2950: "uuid",
}  # fmt: skip


@dataclass(frozen=True)
class Described:
    """A column of a result."""

    name: str
    pg: PgType


class Typer(Protocol):
    """Whoever can say which columns a statement gives; raises InvalidQuery in PostgreSQL's words."""

    def describe(self, sql: str) -> tuple[Described, ...]: ...


class PostgresTyper:
    """Describes through a connection to any PostgreSQL; the catalog's is the usual one."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._names: dict[tuple[int, int], str] = {}

    def describe(self, sql: str) -> tuple[Described, ...]:
        if self._connection.closed:
            raise CatalogError("the connection that types views is closed", hint="Open the session again.")
        with self._connection.transaction(force_rollback=True):
            fields = self._prepared(sql)
            self._learn_names({(oid, typmod) for _, oid, typmod in fields})
        return tuple(Described(name, PgType(oid, mod, self._names[oid, mod])) for name, oid, mod in fields)

    def _prepared(self, sql: str) -> list[tuple[str, int, int]]:
        raw = self._connection.pgconn
        _check(raw.prepare(b"", sql.encode()))
        result = _check(raw.describe_prepared(b""))
        return [((result.fname(i) or b"").decode(), result.ftype(i), result.fmod(i)) for i in range(result.nfields)]

    def _learn_names(self, wanted: Iterable[tuple[int, int]]) -> None:
        missing = [key for key in wanted if key not in self._names]
        if missing:
            rows = self._connection.execute(
                "SELECT o, m, format_type(o, m) FROM unnest(%s::oid[], %s::int[]) AS t(o, m)",
                [[oid for oid, _ in missing], [mod for _, mod in missing]],
            )
            self._names.update({(int(row[0]), row[1]): row[2] for row in rows})


_UNDEFINED_FUNCTION = b"42883"
_OWN_FUNCTIONS = (
    "Check the name and the types of the arguments. Queries call PostgreSQL's own functions; one that was made in the "
    "source's database is not known here, also not through a view: write in the query what it computes."
)


def _check(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status == pq.ExecStatus.COMMAND_OK:
        return result
    field = pq.DiagnosticField
    message = (result.error_field(field.MESSAGE_PRIMARY) or b"PostgreSQL refused the query").decode()
    if result.error_field(field.SQLSTATE) == _UNDEFINED_FUNCTION and message.startswith("function "):
        raise InvalidQuery(message, hint=_OWN_FUNCTIONS)
    hint = result.error_field(field.MESSAGE_HINT)
    raise InvalidQuery(message, hint=hint.decode() if hint else None)


def type_name(pg: PgType) -> str:
    """The type's name for a cast in SQL; one that this server cannot know stands as the text it is held as.

    >>> type_name(PgType(1700, ((10 << 16) | 2) + 4, "numeric")), type_name(PgType(99999, -1, "mood"))
    ('numeric(10,2)', 'text')
    """
    if pg.base is not None:
        return type_name(pg.base)
    if pg.element is not None:
        return f"{type_name(pg.element)}[]"
    if pg.oid >= FIRST_USER_OID:
        return "text"
    if pg.oid in _NAMES:
        return _NAMES[pg.oid]
    base = pg.name.split("(")[0]
    if pg.decimal is not None:
        return f"numeric({pg.decimal[0]},{pg.decimal[1]})"
    if pg.oid == 1700:
        return "numeric"
    if pg.oid in (1042, 1043) and pg.typmod >= 4:
        return f"{'char' if pg.oid == 1042 else 'varchar'}({pg.typmod - 4})"
    return {1042: "bpchar", 1043: "varchar"}.get(pg.oid, base)


def twin(alias: str, columns: Iterable[tuple[str, PgType]]) -> exp.Subquery:
    """A relation of the same columns and no meaning: (SELECT CAST(NULL AS integer) AS "a", …) AS "alias".

    Its inside is text: as a tree it was most of the time that a view takes to be compiled.
    """
    nulls = ", ".join(f"CAST(NULL AS {type_name(pg)}) AS {_quoted(name)}" for name, pg in columns)
    return exp.Subquery(
        this=exp.Var(this=f"SELECT {nulls}"),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
