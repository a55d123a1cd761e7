"""Sources as one YAML file describes them: read, checked, and brought into the words of `add_source`.

    sources:
      shop:
        dsn: postgresql://me:${SHOP_PASSWORD}@db/shop     # or host, port, dbname, user, password
        on_schema_change: follow                          # any option of a source
        schemas:
          public: "*"                                     # all tables, also those that come later
          sales:
            exclude: [log_*]                              # of "*", which may be given beside names
            "*":
            orders: {include_columns: [id, amount]}
            customers: {exclude_columns: [password_hash], row_filter: "active"}
            visits: {sync_mode: stream-only}              # no copy: rows that change from now on

A file with one source may leave `sources:` out and say its name as `name` (or `group`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from penstock.capture.config_forms import from_mapping, read_yaml
from penstock.capture.discover import spell, split_name
from penstock.errors import ConfigError

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_CONNECTION = {"host": "host", "port": "port", "dbname": "dbname", "database": "dbname", "user": "user",
               "username": "user", "password": "password", "sslmode": "sslmode"}  # fmt: skip
_TABLE_KEYS = ("sync_mode", "include_columns", "exclude_columns", "row_filter")
_COPIED, _STREAMED = "copy-and-stream", "stream-only"


@dataclass(frozen=True)
class SourceSpec:
    """One source of a file; `excluded` are columns that are left out, which the server's catalog turns into a list."""

    name: str
    dsn: str = field(repr=False)  # may hold a password
    tables: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    excluded: dict[str, tuple[str, ...]] = field(default_factory=dict)


def read_file(path: str | Path, types: Mapping[str, str]) -> list[SourceSpec]:
    """The sources of a file; `types` are the annotations of a source's options."""
    given = read_yaml(path, hint="Begin it with `sources:`; docs/many-tables.md has an example.")
    if "sources" not in given:
        name = given.pop("name", None) or given.pop("group", None)
        if not name:
            raise ConfigError(f"{path} names no source", hint="Begin it with `sources:`, or give `name: shop`.")
        given = {"sources": {name: given}}
    others = sorted(set(given) - {"sources"})
    if others:
        raise ConfigError(f"{path}: {', '.join(others)} beside `sources`", hint="Options belong to one source each.")
    described = _mapping(given["sources"], f"{path}: sources")
    return [read_source(str(name), one, types) for name, one in described.items()]


def read_source(name: str, given: Any, types: Mapping[str, str]) -> SourceSpec:
    where = f"source {name}"
    one = dict(_mapping(filled(given, where), where))
    schemas = _mapping(one.pop("schemas", {"public": "*"}), f"{where}: schemas")
    dsn = _dsn(one, where)
    tables, options, excluded = _tables(schemas, where)
    plain = from_mapping(one, types)
    for option in options:
        if option in plain:
            raise ConfigError(f"{where}: {option} is given twice", hint="Leave it out: the tables say it already.")
    return SourceSpec(name, dsn, tuple(tables), {**plain, **options}, excluded)


def filled(value: Any, where: str) -> Any:
    """Texts with variables of the environment put in their place."""
    if isinstance(value, Mapping):
        return {key: filled(inner, where) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, where) for inner in value]
    if not isinstance(value, str):
        return value
    missing = [name for name in _VARIABLE.findall(value) if name not in os.environ]
    if missing:
        raise ConfigError(f"{where}: the variable {missing[0]} is not set", hint=f"export {missing[0]}=… first.")
    return _VARIABLE.sub(lambda match: os.environ[match[1]], value)


def _dsn(one: dict[str, Any], where: str) -> str:
    parts: dict[str, Any] = {}
    for key in [key for key in one if key in _CONNECTION]:
        if _CONNECTION[key] in parts:
            raise ConfigError(f"{where}: {_CONNECTION[key]} is given twice", hint="Keep one of the two.")
        parts[_CONNECTION[key]] = one.pop(key)
    dsn = one.pop("dsn", "")
    for key, value in {"dsn": dsn, **parts}.items():
        if not isinstance(value, str | int) or isinstance(value, bool) or "\0" in str(value):
            raise ConfigError(f"{where}: {key} is not text", hint=f"Put the {key} in quotes.")
    if not dsn and "dbname" not in parts:
        raise ConfigError(f"{where} names no database", hint="Give `dsn`, or `host`, `dbname` and `user`.")
    if dsn and parts:
        raise ConfigError(f"{where} has both dsn and {', '.join(parts)}", hint="Keep one of the two.")
    return str(dsn) or make_conninfo("", **parts)


def _tables(schemas: Mapping[Any, Any], where: str) -> tuple[list[str], dict[str, Any], dict[str, tuple[str, ...]]]:
    names: list[str] = []
    columns: dict[str, list[str]] = {}
    filters: dict[str, str] = {}
    modes: dict[str, str] = {}
    excluded: dict[str, tuple[str, ...]] = {}
    for schema, given in schemas.items():
        for table, details in _of_schema(str(schema), given, where):
            if table.startswith("!") or "*" in table:
                names.append(table)
                if details:
                    raise ConfigError(f"{where}: {table} has {', '.join(details)}", hint="Name the tables they are of.")
                continue
            names.append(table)
            _check_details(table, details, where)
            if details.get("sync_mode") == _STREAMED:
                modes[".".join(split_name(table))] = _STREAMED
            if details.get("row_filter"):
                filters[table] = str(details["row_filter"])
            included = details.get("include_columns", "*")
            if included != "*":
                columns[table] = _list(included, f"{where}: include_columns of {table}")
            if details.get("exclude_columns"):
                left_out = _list(details["exclude_columns"], f"{where}: exclude_columns of {table}")
                if table in columns:
                    columns[table] = [column for column in columns[table] if column not in left_out]
                else:
                    excluded[table] = tuple(left_out)
    options: dict[str, Any] = {"publication_column_list": columns} if columns else {}
    options |= {"publication_row_filter": filters} if filters else {}
    return names, options | ({"sync_modes": modes} if modes else {}), excluded


def _of_schema(schema: str, given: Any, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Names and patterns of one schema, with what is said of each."""
    if given == "*":
        return [(f"{spell(schema)}.*", {})]
    if isinstance(given, list):
        return [(_table(schema, str(table)), {}) for table in given]
    found: list[tuple[str, Mapping[str, Any]]] = []
    for table, details in _mapping(given, f"{where}: schema {schema}").items():
        if table == "exclude" and isinstance(details, list):
            found += [("!" + _table(schema, str(one)), {}) for one in details]
        else:
            inner = {} if details in (None, "*") else _mapping(details, f"{where}: {schema}.{table}")
            found.append((_table(schema, str(table)), inner))
    return found


def _table(schema: str, table: str) -> str:
    return f"{spell(schema)}.{table}" if "*" in table else spell(schema, table)


def _check_details(table: str, details: Mapping[str, Any], where: str) -> None:
    unknown = sorted(set(details) - set(_TABLE_KEYS))
    if unknown:
        raise ConfigError(
            f"{where}: {table} has {', '.join(unknown)}", hint=f"A table may have {', '.join(_TABLE_KEYS)}."
        )
    mode = details.get("sync_mode", _COPIED)
    if mode not in (_COPIED, _STREAMED):
        raise ConfigError(f"{where}: sync_mode of {table} is {mode!r}", hint=f"It is {_COPIED} or {_STREAMED}.")


def _list(given: Any, where: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ConfigError(f"{where} is not a list of names", hint='Write ["id", "email"], or "*" for all.')
    return list(given)


def _mapping(given: Any, where: str) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where} is not a mapping", hint="See docs/many-tables.md for an example.")
    return given
