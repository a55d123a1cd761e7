"""Sources and connectors: options as they are written become the arguments of `add_source`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from penstock.capture.config import SourceConfig, with_schema
from penstock.capture.config_forms import CONNECTOR, comma_separated, from_mapping
from penstock.capture.connection import connect, translated
from penstock.capture.discover import discover, inspect
from penstock.capture.server_types import ServerTypes
from penstock.capture.source_file import filled
from penstock.catalog import sources, stream_tables
from penstock.errors import ConfigError, SchemaChanged
from penstock.relation.schema import Column
from penstock.sql.answer import Answer
from penstock.sql.statements import CreateSource, DescribeConnector, DropSource
from penstock.zset import CHANGE_FIELDS, RAW_FIELDS

if TYPE_CHECKING:
    from penstock.capture.home_copy import Progress
    from penstock.session import Session

_CONNECTION = (
    "hostname", "port", "database", "username", "password", "dsn_options", "ssl_mode", "ssl_root_cert", "ssl_cert",
    "ssl_key", "connect_timeout",
)  # fmt: skip
# Where a home says what a source of its own does without.
_HERE = {
    "table_name": "all tables of the schema",
    "slot_name": "penstock_<source>_<six digits>",
    "publication_name": "penstock_<source>",
}
_BESIDE = {field.name for field in (*CHANGE_FIELDS, *RAW_FIELDS)}


def create(ps: Session, asked: CreateSource, progress: Progress | None = None) -> Answer:
    if asked.if_not_exists and sources.lookup(ps.catalog, asked.name) is not None:
        return Answer(message=f"Source {asked.name} exists already; nothing was changed.")
    dsn, tables, options = arguments(asked.options, f"source {asked.name}")
    if asked.columns:
        _check_columns(dsn, tables, asked.columns)
    ps.add_source(asked.name, dsn, tables, progress=progress, **options)
    captured = sources.get(ps.catalog, asked.name).captured
    return Answer(message=f"Source {asked.name} is captured up to {captured}.")


def drop(ps: Session, asked: DropSource) -> Answer:
    source = sources.lookup(ps.catalog, asked.name)
    if source is None and asked.if_exists:
        return Answer(message=f"There is no source {asked.name}; nothing was changed.")
    readers = stream_tables.readers_of_source(ps.catalog, source.id) if source and asked.cascade else []
    if source and readers and not asked.force:
        connect(source.dsn).close()  # what cannot be reached is refused before anything is dropped
    gone: list[str] = []
    for name in readers:
        gone += [] if name in gone else ps.drop_stream_table(name, cascade=True)
    ps.remove_source(asked.name, force=asked.force)
    with_them = f", and with it {', '.join(sorted(gone))}" if gone else ""
    return Answer(message=f"Source {asked.name} is dropped{with_them}.")


def describe_connector(asked: DescribeConnector) -> Answer:
    if asked.connector != CONNECTOR:
        raise ConfigError(f"connector {asked.connector!r} is not known", hint=f"The connector here is {CONNECTOR!r}.")
    if not asked.options:
        return _options()
    dsn, tables, _ = arguments(asked.options, "the connector")
    rows = [
        (name, column.name, column.pg.name, str(column.arrow), column.nullable, column.name in schema.key)
        for name, schema in inspect(dsn, tables).items()
        for column in schema.columns
    ]
    return Answer(("table", "column", "pg_type", "arrow_type", "nullable", "key"), tuple(rows))


def arguments(given: Mapping[str, str], where: str) -> tuple[str, list[str], dict[str, Any]]:
    """Connection string, tables and options. `${VARIABLE}` is read from the environment."""
    values = dict(filled(given, where))
    listed = comma_separated(values.pop("tables", ""))
    dsn = values.pop("dsn", "")
    found = from_mapping(values, SourceConfig.types())
    connection = {name: found.pop(name) for name in _CONNECTION if name in found}
    if dsn and connection:
        raise ConfigError(f"{where} has both dsn and {', '.join(connection)}", hint="Keep one of the two.")
    schema = found.pop("schema_name", "public")
    single = found.pop("table_name", "")
    named = [*(comma_separated(single) if single else ()), *found.pop("additional_tables", ()), *listed]
    tables = [with_schema(name, schema) for name in named or ("*",)]
    return dsn or _dsn(connection, where), tables, found


def _dsn(connection: dict[str, Any], where: str) -> str:
    if not connection.get("database"):
        raise ConfigError(f"{where} names no database", hint="Give hostname, database and username, or dsn.")
    return SourceConfig(**connection, table_name="*", slot_name="unused").dsn


def _options() -> Answer:
    """What a source may be given, with what holds where nothing is said."""
    types = get_type_hints(SourceConfig)
    rows = [
        (option.name.replace("_", "."), _type(types[option.name], str(option.type)), _default(option))
        for option in fields(SourceConfig)
    ]
    return Answer(("option", "type", "default"), tuple(sorted(rows)))


def _type(hint: Any, written: str) -> str:
    """
    >>> _type(Literal["arrow", "debezium-json"], "Format"), _type(bool, "bool")
    ('arrow | debezium-json', 'bool')
    """
    return " | ".join(get_args(hint)) if get_origin(hint) is Literal else written


def _default(option: Field[Any]) -> str:
    if option.name in ("database", "hostname"):
        return "required" if option.name == "database" else str(option.default)
    if option.name in _HERE:
        return _HERE[option.name]
    default = option.default if option.default is not MISSING else None
    return "" if default in (None, "", ()) else str(default)


def _check_columns(dsn: str, tables: list[str], wanted: tuple[tuple[str, str], ...]) -> None:
    """Columns that a statement lists are there, and hold what it says."""
    with connect(dsn) as connection:
        found = list(discover(connection, tables).values())
        if len(found) != 1:
            names = ", ".join(table.name for table in found)
            raise ConfigError(f"columns are listed, and the tables are {names}", hint="List columns of one table only.")
        columns = {column.name: column for column in found[0].schema.columns}
        for name, written in wanted:
            if name not in columns and name not in _BESIDE:
                raise SchemaChanged(
                    f"{found[0].name} has no column {name}", hint=f"Its columns are {', '.join(columns)}."
                )
            if name in columns:
                _check_type(connection, found[0].name, columns[name], written)


def _check_type(connection: Any, table: str, column: Column, written: str) -> None:
    with translated():
        row = connection.execute("SELECT to_regtype(%s)::oid::int8", (written,)).fetchone()
    if row is None or row[0] is None:
        raise ConfigError(f"{written!r} is not a type of PostgreSQL", hint=f"{column.name} is {column.pg.name}.")
    asked = ServerTypes(connection, [row[0]]).type(row[0], -1, written)
    same = asked.oid == column.pg.oid or asked.arrow.id == column.arrow.id
    if not same:
        raise SchemaChanged(
            f"{column.name} of {table} is {column.pg.name}, not {written}",
            hint="Write its type, or leave the list out.",
        )
