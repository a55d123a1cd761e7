"""Looking: SELECT, SHOW, DESCRIBE, EXPLAIN. No password is in any answer."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, assert_never

from penstock.capture.config_forms import CONNECTOR
from penstock.catalog import alerts, relations, sources, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.sources import Source
from penstock.catalog.stream_tables import StreamTable
from penstock.passwords import without_password
from penstock.sql.answer import Answer
from penstock.sql.statements import CreateStreamTable, Describe, Explain, Select, Show, ShowCreate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.refresh.moments import Moment
    from penstock.session import Session


def select(ps: Session, asked: Select, at: Moment | None) -> DataFrame:
    from penstock.sql.select import select

    frontier = None if at is None else ps.engine.frontier_at(at)
    return select(ps.catalog, ps.engine.reader, asked.query, at=frontier)


def show(ps: Session, asked: Show) -> Answer:
    match asked.what:
        case "STREAM TABLES":
            return _stream_tables(ps, asked.like)
        case "TABLES":
            return _tables(ps, asked.like)
        case "SOURCES":
            return _of(ps.monitor.sources(), _SOURCE)
        case "HISTORY":
            names = [asked.name] if asked.name else None
            return _of(ps.monitor.history(names, asked.limit), _LINE)
        case "ALERTS":
            return _of(alerts.now(ps.catalog), ("kind", "subject", "message", "hint", "raised_at"))
        case "DAG":
            return Answer(("dag",), tuple((line,) for line in ps.dag().splitlines()))
        case "SETTINGS":
            given = ps.engine.settings
            settings = [
                (name, getattr(given, name), field.description) for name, field in type(given).model_fields.items()
            ]
            return Answer(("setting", "value", "meaning"), tuple(settings))
        case "CONNECTORS":
            return Answer(("connector",), ((CONNECTOR,),))
        case _:
            assert_never(asked.what)


_SOURCE = ("name", "state", "tables", "slot", "captured", "readable", "moved_at")
_LINE = ("stream_table", "finished_at", "action", "reason", "inserted", "deleted", "seconds", "round", "error")
_TABLE = ("name", "status", "mode", "schedule", "rows", "staleness", "last_action", "last_refresh_at", "last_error")


def _of(found: Any, columns: tuple[str, ...]) -> Answer:
    return Answer(columns, tuple(tuple(_short(getattr(one, column)) for column in columns) for one in found))


def _short(value: Any) -> Any:
    """Times to the second, and seconds to the millisecond: the views have all there is."""
    if isinstance(value, datetime):
        return value.replace(microsecond=0)
    return round(value, 3) if isinstance(value, float) else value


def _settings(ps: Session) -> Answer:
    given = ps.engine.settings
    known = type(given).model_fields
    return Answer(
        ("setting", "value", "meaning"),
        tuple((name, getattr(given, name), field.description) for name, field in known.items()),
    )


def _tables(ps: Session, like: str | None) -> Answer:
    known = [one for one in relations.every(ps.catalog) if one.source is not None and _like(one.name, like)]
    rows = [(one.name, one.source, len(one.schema.columns), ", ".join(one.schema.key)) for one in known]
    return Answer(("table", "source", "columns", "key"), tuple(rows))


def _stream_tables(ps: Session, like: str | None) -> Answer:
    return _of([one for one in ps.monitor.stream_tables() if _like(one.name, like)], _TABLE)


def _like(name: str, pattern: str | None) -> bool:
    """SQL's LIKE.

    >>> _like("revenue_by_city", "revenue%"), _like("ab", "a_"), _like("ab", "a"), _like("ab", None)
    (True, True, False, True)
    """
    if pattern is None:
        return True
    parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), name, re.DOTALL | re.IGNORECASE) is not None


def show_create(ps: Session, asked: ShowCreate) -> Answer:
    if asked.kind == "SOURCE":
        text = statement_of_source(sources.get(ps.catalog, asked.name))
    else:
        text = statement_of(stream_tables.get(ps.catalog, asked.name))
    return Answer(("statement",), ((text,),))


def statement_of(table: StreamTable) -> str:
    """The statement that makes a stream table as it is."""
    words = [f"CREATE STREAM TABLE {table.name}"]
    if table.schedule is not None:
        words.append(f"SCHEDULE {_quoted(table.schedule)}")
    words.append(f"MODE {table.mode}")
    if table.cdc_mode is not None:
        words.append(f"CDC_MODE {table.cdc_mode}")
    return f"{' '.join(words)} AS\n{table.written}"


def statement_of_source(source: Source) -> str:
    """The same of a source; what is secret in its connection is not shown."""
    options = {"connector": CONNECTOR, "dsn": without_password(source.dsn), "tables": ", ".join(source.tables)}
    options |= {name.replace("_", "."): _written(value) for name, value in source.options.items()}
    listed = ",\n".join(f"    {_option(name)} = {_quoted(value)}" for name, value in options.items())
    return f"CREATE SOURCE {source.name} WITH (\n{listed}\n)"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _option(name: str) -> str:
    return name if name.isidentifier() else _quoted(name)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def describe(ps: Session, asked: Describe) -> Answer:
    match asked.kind:
        case "SOURCE":
            return _describe_source(ps, sources.get(ps.catalog, asked.name))
        case "STREAM TABLE":
            stream_tables.get(ps.catalog, asked.name)
        case "RELATION":
            pass
        case _:
            assert_never(asked.kind)
    relation = relations.find(ps.catalog, asked.name)
    columns = [
        (one.name, one.pg.name, one.spark, one.nullable, one.name in relation.schema.key)
        for one in relation.schema.columns
    ]
    header = ("column", "pg_type", "spark_type", "nullable", "key")
    return Answer(header, tuple(columns), properties=_properties(ps, relation))


def _properties(ps: Session, relation: Relation) -> dict[str, Any]:
    if relation.source is not None:
        return {"table": relation.name, "source": relation.source, "read by": ", ".join(_readers(ps, relation))}
    found = ps.monitor.stream_table(relation.name)
    names = {one.id: one.name for one in relations.every(ps.catalog)}
    table = stream_tables.get(ps.catalog, relation.name)
    return {
        "stream table": relation.name,
        "status": found.status if found.status_reason is None else f"{found.status}: {found.status_reason}",
        "mode": found.mode,
        "schedule": found.schedule,
        "cdc mode": found.cdc_mode,
        "reads": ", ".join(names[one] for one in table.inputs if one in names) or None,
        "read by": ", ".join(_readers(ps, relation)) or None,
        "frontier": None if table.frontier is None else str(table.frontier),
        "rows": found.rows,
        "last refresh": None if found.last_action is None else f"{found.last_action} ({found.last_reason})",
        "query": table.written,
    }


def _readers(ps: Session, relation: Relation) -> list[str]:
    return stream_tables.dependants(ps.catalog, relation.id)


def _describe_source(ps: Session, source: Source) -> Answer:
    tables = relations.of_source(ps.catalog, source.name)
    rows = [(one.table, len(one.schema.columns), ", ".join(one.schema.key)) for one in tables]
    properties = {
        "source": source.name,
        "state": source.state,
        "connection": without_password(source.dsn),
        "slot": source.slot,
        "publication": source.publication,
        "captured": source.captured,
        **source.options,
    }
    return Answer(("table", "columns", "key"), tuple(rows), properties=properties)


def explain(ps: Session, asked: Explain) -> Answer:
    if isinstance(asked.of, CreateStreamTable):
        text = ps.explain_query(asked.of.query, name=asked.of.name)
    else:
        stream_tables.get(ps.catalog, asked.of)
        text = ps.explain(asked.of)
    return Answer(("plan",), tuple((line,) for line in text.splitlines()))
