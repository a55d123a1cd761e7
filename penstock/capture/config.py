"""What a source is told: a value that is complete and checked when it exists, so nothing later meets a bad option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.errors import ConfigError, NotYet

SnapshotMode = Literal["initial", "never", "always", "initial_only"]
SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]

_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
_POSITIVE = (
    "connect_timeout",
    "max_batch_size",
    "poll_interval",
    "heartbeat_interval",
    "slot_advance_interval",
    "slot_timeout",
    "max_wal_lag_bytes",
)
_FROM_DSN = {"host": "hostname", "port": "port", "dbname": "database", "user": "username", "password": "password"}


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """A PostgreSQL source. Times are in seconds.

    `table_name` and `additional_tables` are names such as `orders`, `sales.orders` or `sales.*`; a name without a
    schema is in `schema_name`. An empty `hostname` and a `port` of None are left to libpq (its environment, service
    files and default socket). `dsn_options` are further libpq parameters.
    """

    hostname: str = "localhost"
    port: int | None = 5432
    database: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    schema_name: str = "public"
    table_name: str
    additional_tables: tuple[str, ...] = ()
    slot_name: str
    publication_name: str = ""  # penstock_<slot_name> unless given
    snapshot_mode: SnapshotMode = "initial"
    ssl_mode: SslMode = "prefer"
    connect_timeout: float = 10.0
    max_batch_size: int = 1024  # rows of a poll that does not say
    poll_interval: float = 0.1  # seconds a poll waits that does not say
    heartbeat_interval: float = 10.0  # sign of life to the server while the caller is busy between polls
    slot_advance_interval: float = 5.0
    slot_timeout: float = 60.0  # longest wait for older transactions when the slot is made
    max_wal_lag_bytes: int = 100 << 20
    dsn_options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.publication_name:
            object.__setattr__(self, "publication_name", _publication_for(self.slot_name))
        object.__setattr__(self, "additional_tables", tuple(self.additional_tables))
        _check(self)

    @property
    def tables(self) -> tuple[str, ...]:
        """All asked names, each with its schema."""
        return tuple(with_schema(name, self.schema_name) for name in (self.table_name, *self.additional_tables))

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
            **dict(self.dsn_options),
        }
        return make_conninfo("", connect_timeout=max(2, round(self.connect_timeout)), **options)

    @classmethod
    def from_dsn(cls, dsn: str, tables: Sequence[str], slot_name: str, **options: Any) -> SourceConfig:
        """The same from a libpq conninfo or URI; a host may be a socket folder."""
        if isinstance(tables, str) or not tables:
            raise ConfigError("no tables to capture", hint='Pass a list of names, for example tables=["public.*"].')
        unknown = sorted(set(options) - {option.name for option in fields(cls)})
        if unknown:
            raise ConfigError(
                f"no such source option: {', '.join(unknown)}",
                hint=f"Options are {', '.join(sorted(option.name for option in fields(cls)))}.",
            )
        first, *others = tables
        return cls(**_from_dsn(dsn), table_name=first, additional_tables=tuple(others), slot_name=slot_name, **options)


def with_schema(name: str, schema: str) -> str:
    """
    >>> with_schema("orders", "public"), with_schema("sales.*", "public"), with_schema('"a.b"', "public")
    ('public.orders', 'sales.*', 'public."a.b"')
    """
    bare = re.sub(r'"[^"]*"', "", name)
    return name if "." in bare else f"{schema}.{name}"


def _publication_for(slot: str) -> str:
    return slot if slot.startswith("penstock_") else f"penstock_{slot}"[:63]


def _from_dsn(dsn: str) -> dict[str, Any]:
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    except psycopg.ProgrammingError as error:
        raise ConfigError(
            f"not a PostgreSQL connection string: {error}",
            hint="Write it as postgresql://user:password@host:port/database or as host=… dbname=…",
        ) from None
    found: dict[str, Any] = {"hostname": "", "port": None}
    found |= {ours: given.pop(theirs) for theirs, ours in _FROM_DSN.items() if theirs in given}
    if found["port"] is not None and found["port"].isdecimal():
        found["port"] = int(found["port"])
    if "sslmode" in given:
        found["ssl_mode"] = given.pop("sslmode")
    if "connect_timeout" in given:
        found["connect_timeout"] = _seconds(given.pop("connect_timeout"))
    if "database" not in found:
        raise ConfigError("the connection string names no database", hint="Add dbname=… or /database to it.")
    return {**found, "dsn_options": tuple(sorted(given.items()))}


def _seconds(text: str) -> float:
    if not text.strip().isdecimal():
        raise ConfigError(f"connect_timeout {text!r} cannot be used", hint="It is a whole number of seconds.")
    return max(2.0, float(text))  # libpq's own least


def _check(config: SourceConfig) -> None:
    if not _SLOT_NAME.fullmatch(config.slot_name):
        raise ConfigError(
            f"slot name {config.slot_name!r} cannot be used",
            hint="PostgreSQL allows lower-case letters, digits and underscores, at most 63 of them.",
        )
    for required in ("database", "schema_name", "table_name", "publication_name"):
        if not isinstance(getattr(config, required), str) or not getattr(config, required):
            raise ConfigError(f"{required} is missing", hint=f"Give the source a {required}.")
    if len(config.publication_name.encode()) > 63:
        raise ConfigError(
            f"publication name {config.publication_name!r} is too long", hint="PostgreSQL cuts names at 63 bytes."
        )
    if config.port is not None and not (isinstance(config.port, int) and 0 < config.port < 65536):
        raise ConfigError(f"port {config.port!r} cannot be used", hint="A port is a number from 1 to 65535.")
    for name in _POSITIVE:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ConfigError(f"{name} is {value!r}", hint="It must be a number greater than zero.")
    if config.ssl_mode not in get_args(SslMode):
        raise ConfigError(f"ssl_mode {config.ssl_mode!r} is not known", hint=f"One of {', '.join(get_args(SslMode))}.")
    if config.snapshot_mode not in get_args(SnapshotMode):
        raise ConfigError(
            f"snapshot_mode {config.snapshot_mode!r} is not known", hint=f"One of {', '.join(get_args(SnapshotMode))}."
        )
    if config.snapshot_mode not in ("initial", "never"):
        raise NotYet(f"snapshot_mode {config.snapshot_mode!r}", hint="Use 'initial' or 'never'.")
