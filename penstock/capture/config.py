"""What a source is told: a value that is complete and checked when it exists, so nothing later meets a bad option.

A password is in `password` and in `dsn` and nowhere else: not in repr() or str(), and not in an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from psycopg.conninfo import make_conninfo

from penstock.capture import config_forms
from penstock.capture.config_checks import check
from penstock.errors import ConfigError
from penstock.passwords import parameters

SnapshotMode = Literal["initial", "never", "always", "initial_only"]
SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
ToastHandling = Literal["settle", "require-full", "cache-unchanged", "sentinel", "fetch"]
Consolidate = Literal["transaction", "flush", "off"]
SchemaChanges = Literal["follow", "stop"]
Reader = Literal["auto", "stream", "pull"]
Streaming = Literal["auto", "on", "off"]
Format = Literal["arrow", "debezium-json"]
Partitions = Literal["root", "leaves"]
Generated = Literal["refuse", "leave_out"]

_CHOICES = {
    "ssl_mode": get_args(SslMode),
    "snapshot_mode": get_args(SnapshotMode),
    "toast_handling": get_args(ToastHandling),
    "consolidate": get_args(Consolidate),
    "on_schema_change": get_args(SchemaChanges),
    "reader": get_args(Reader),
    "streaming": get_args(Streaming),
    "format": get_args(Format),
    "partitions": get_args(Partitions),
    "generated_columns": get_args(Generated),
}
_FROM_DSN = {
    "host": "hostname",
    "port": "port",
    "dbname": "database",
    "user": "username",
    "password": "password",
    "sslmode": "ssl_mode",
    "sslrootcert": "ssl_root_cert",
    "sslcert": "ssl_cert",
    "sslkey": "ssl_key",
}
_BAD_DSN = "Write it as postgresql://user:password@host:port/database or as host=… dbname=…"
_EVERY = "*"  # one row filter or column list for every table


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """A PostgreSQL source. Times are in seconds; docs/configuration.md tells every option.

    `table_name` and `additional_tables` are names such as `orders`, `sales.orders` or `sales.*`; a name without a
    schema is in `schema_name`. An empty `hostname` and a `port` of None are left to libpq (its environment, service
    files and default socket). `dsn_options` are further libpq parameters.
    """

    hostname: str = "localhost"
    port: int | None = 5432
    database: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    dsn_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold sslpassword
    ssl_mode: SslMode = "prefer"
    ssl_root_cert: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    connect_timeout: float = 10.0

    schema_name: str = "public"
    table_name: str
    additional_tables: tuple[str, ...] = ()
    slot_name: str
    failover: bool = False  # the slot is synchronised to standbys (17 and later)
    slot_timeout: float = 60.0  # longest wait for older transactions when the slot is made
    publication_name: str = ""  # penstock_<slot_name> unless given
    publication_row_filter: str | Mapping[str, str] = field(default="", hash=False)
    publication_column_list: str | Sequence[str] | Mapping[str, str | Sequence[str]] = field(default="", hash=False)

    column_forms: Mapping[str, str] = field(default_factory=dict, hash=False)  # schema.table.column: text or native

    snapshot_mode: SnapshotMode = "initial"
    copy_workers: int = 4  # connections that copy at once
    copy_range_blocks: int = 8192  # blocks of a table that are copied as one range: what a crash can cost
    partitions: Partitions = "root"  # a partitioned table is one table, or each of its leaves is one
    generated_columns: Generated = "refuse"  # those that the server does not send
    format: Format = "arrow"
    include_before_image: bool = True
    toast_handling: ToastHandling = "settle"
    toast_cache_bytes: int = 64 << 20
    consolidate: Consolidate = "transaction"
    on_schema_change: SchemaChanges = "follow"
    ddl_trigger: bool = False  # event triggers on the source tell of DDL (14 and later)
    two_phase: bool = False
    streaming: Streaming = "auto"
    reader: Reader = "auto"

    max_batch_size: int = 1024  # rows of a poll that does not say
    poll_interval: float = 0.1  # seconds a poll waits that does not say
    max_transaction_memory_bytes: int = 128 << 20
    spill_directory: str | None = None

    heartbeat_interval: float = 10.0  # sign of life to the server while the caller is busy between polls
    slot_advance_interval: float = 5.0
    server_heartbeat_enabled: bool = True
    server_heartbeat_interval: float = 30.0
    max_wal_lag_bytes: int = 100 << 20
    idle_timeout: float = 60.0  # a table without a change for so long follows the server's clock
    reconnect: bool = True
    assume_no_truncate: bool = False  # PostgreSQL 10 does not replicate TRUNCATE; True takes the risk
    trust_foreign_keys: bool = True  # False where sessions write with session_replication_role = replica

    def __post_init__(self) -> None:
        if not self.publication_name:
            object.__setattr__(self, "publication_name", _publication_for(str(self.slot_name)))
        if isinstance(self.additional_tables, str):
            raise ConfigError("additional_tables is one text", hint="Pass a list of table names.")
        object.__setattr__(self, "additional_tables", tuple(self.additional_tables))
        object.__setattr__(self, "dsn_options", config_forms.pairs(self.dsn_options))
        check(self, _CHOICES, own=_FROM_DSN)

    @property
    def tables(self) -> tuple[str, ...]:
        """All asked names, each with its schema."""
        return tuple(with_schema(name, self.schema_name) for name in (self.table_name, *self.additional_tables))

    @property
    def row_filters(self) -> dict[str, str]:
        """Row filters by table name with its schema; `*` is for every table."""
        given = self.publication_row_filter
        by_table = given if isinstance(given, Mapping) else {_EVERY: given} if given.strip() else {}
        return {self._table(name): text for name, text in by_table.items()}

    @property
    def column_lists(self) -> dict[str, tuple[str, ...]]:
        """Column lists by table name with its schema; `*` is for every table."""
        given = self.publication_column_list
        by_table = given if isinstance(given, Mapping) else {_EVERY: given} if given else {}
        return {
            self._table(name): config_forms.comma_separated(listed) if isinstance(listed, str) else tuple(listed)
            for name, listed in by_table.items()
        }

    def _table(self, name: str) -> str:
        return name if name == _EVERY else with_schema(name, self.schema_name)

    @property
    def dsn(self) -> str:
        """The libpq conninfo of the source."""
        options: dict[str, Any] = {
            "host": self.hostname or None,
            "port": self.port,
            "dbname": self.database,
            "user": self.username,
            "password": self.password,
            "sslmode": self.ssl_mode,
            "sslrootcert": self.ssl_root_cert,
            "sslcert": self.ssl_cert,
            "sslkey": self.ssl_key,
            **dict(self.dsn_options),
        }
        return make_conninfo("", connect_timeout=max(2, round(self.connect_timeout)), **options)

    @classmethod
    def from_dsn(cls, dsn: str, tables: Sequence[str], slot_name: str, **options: Any) -> SourceConfig:
        """The same from a libpq conninfo or URI; a host may be a socket folder."""
        if isinstance(tables, str) or not tables:
            raise ConfigError("no tables to capture", hint='Pass a list of names, for example tables=["public.*"].')
        known = [option.name for option in fields(cls)]
        for name in options:
            if name not in known:
                raise config_forms.unknown_option(name, known)
        first, *others = tables
        given = {"table_name": first, "additional_tables": tuple(others), "slot_name": slot_name, **options}
        return cls(**{**_from_dsn(dsn), **given})

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> SourceConfig:
        """The same from dotted names: `{"hostname": …, "slot.name": …, "heartbeat.interval.ms": "10000"}`."""
        return cls._from(config_forms.from_mapping(given, cls.types()))

    @classmethod
    def from_env(cls, prefix: str = config_forms.PREFIX, environment: Mapping[str, str] | None = None) -> SourceConfig:
        """The same from variables: `PENSTOCK_SOURCE_SLOT_NAME`, `PENSTOCK_SOURCE_HEARTBEAT_INTERVAL_MS`."""
        given = os.environ if environment is None else environment
        return cls._from(config_forms.from_environment(given, prefix, cls.types()))

    @classmethod
    def from_yaml(cls, path: str | Path) -> SourceConfig:
        """The same from a YAML file with dotted or nested names."""
        return cls._from(config_forms.from_yaml(path, cls.types()))

    @classmethod
    def types(cls) -> dict[str, str]:
        """The annotation of every option, as text."""
        return {option.name: str(option.type) for option in fields(cls)}

    @classmethod
    def _from(cls, options: dict[str, Any]) -> SourceConfig:
        for required in ("database", "table_name", "slot_name"):
            if not options.get(required):
                raise ConfigError(f"{required} is missing", hint=f"Give the source a {required.replace('_', '.')}.")
        return cls(**options)


def with_schema(name: str, schema: str) -> str:
    """
    >>> with_schema("orders", "public"), with_schema("sales.*", "public"), with_schema('"a.b"', "public")
    ('public.orders', 'sales.*', 'public."a.b"')
    >>> with_schema("!log_*", "public")
    '!public.log_*'
    """
    if name.startswith("!"):
        return "!" + with_schema(name[1:], schema)
    bare = re.sub(r'"[^"]*"', "", name)
    return name if "." in bare else f"{schema}.{name}"


def read_conninfo(dsn: str) -> dict[str, str]:
    """The parameters of a connection string. libpq's own words quote the string, so they are not passed on."""
    given = parameters(dsn)
    if given is None:
        raise ConfigError("not a PostgreSQL connection string", hint=f"{_BAD_DSN}; %-encode what is special in a URI.")
    return given


def _publication_for(slot: str) -> str:
    return slot if slot.startswith("penstock_") else f"penstock_{slot}"[:63]


def _from_dsn(dsn: str) -> dict[str, Any]:
    given = read_conninfo(dsn)
    found: dict[str, Any] = {"hostname": "", "port": None}
    several = "," in given.get("port", "")  # one for each of several hosts, which libpq tries in turn
    named = {theirs: ours for theirs, ours in _FROM_DSN.items() if theirs in given}
    found |= {ours: given.pop(theirs) for theirs, ours in named.items() if not (several and theirs == "port")}
    if found["port"] is not None and found["port"].isdecimal():
        found["port"] = int(found["port"])
    if "connect_timeout" in given:
        found["connect_timeout"] = _seconds(given.pop("connect_timeout"))
    if "database" not in found:
        raise ConfigError("the connection string names no database", hint="Add dbname=… or /database to it.")
    return {**found, "dsn_options": tuple(sorted(given.items()))}


def _seconds(text: str) -> float:
    if not text.strip().isdecimal():
        raise ConfigError(f"connect_timeout {text!r} cannot be used", hint="It is a whole number of seconds.")
    return max(2.0, float(text))  # libpq's own least
