"""What makes an option unusable whatever the server says, each as one error with its remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.capture.config_forms import comma_separated
from penstock.errors import ConfigError, NotYet
from penstock.passwords import is_parameter

if TYPE_CHECKING:
    from penstock.capture.config import SourceConfig

_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
_REQUIRED = ("database", "schema_name", "table_name", "slot_name", "publication_name")
_TIMES = (
    "connect_timeout",
    "poll_interval",
    "heartbeat_interval",
    "slot_advance_interval",
    "slot_timeout",
    "server_heartbeat_interval",
    "idle_timeout",
)
_COUNTS = (
    "max_batch_size",
    "max_wal_lag_bytes",
    "max_transaction_memory_bytes",
    "copy_workers",
    "copy_range_blocks",
    "toast_cache_bytes",
)
_PARAMETERS = "They are listed under Parameter Key Words in PostgreSQL's documentation of libpq."
_SWITCHES = (
    "failover",
    "include_before_image",
    "ddl_trigger",
    "two_phase",
    "server_heartbeat_enabled",
    "reconnect",
    "assume_no_truncate",
    "trust_foreign_keys",
)
_TEXTS = ("hostname", "username", "password", "ssl_root_cert", "ssl_cert", "ssl_key", "spill_directory")


def check(config: SourceConfig, choices: Mapping[str, tuple[str, ...]], own: Mapping[str, str]) -> None:
    """`choices` are the words that some options allow, `own` libpq's parameters that have an option of their own."""
    _check_texts(config)
    _check_dsn_options(config, own)
    _check_numbers(config)
    for name, allowed in choices.items():
        if getattr(config, name) not in allowed:
            raise ConfigError(f"{name} {getattr(config, name)!r} is not known", hint=f"One of {', '.join(allowed)}.")
    for name in _SWITCHES:
        if not isinstance(getattr(config, name), bool):
            raise ConfigError(f"{name} is {getattr(config, name)!r}", hint="It is True or False.")
    if not config.include_before_image:
        raise NotYet(
            "include_before_image=False", hint="Leave it out: old rows come as the server logs them, at no extra cost."
        )
    _check_row_filter(config.publication_row_filter)
    _check_column_list(config.publication_column_list)
    _check_column_forms(config.column_forms)


def _check_texts(config: SourceConfig) -> None:
    for name in _REQUIRED:
        if not isinstance(getattr(config, name), str) or not getattr(config, name):
            raise ConfigError(f"{name} is missing", hint=f"Give the source a {name}.")
    for name in _TEXTS:
        if not isinstance(getattr(config, name), str | None):  # not shown: it may be a password all the same
            raise ConfigError(f"{name} is not text", hint=f"Put the {name} in quotes.")
    for name in (*_REQUIRED, *_TEXTS):
        if "\0" in (getattr(config, name) or ""):
            raise ConfigError(f"{name} has a zero byte", hint="PostgreSQL has no texts with one.")
    if not _SLOT_NAME.fullmatch(config.slot_name):
        raise ConfigError(
            f"slot name {config.slot_name!r} cannot be used",
            hint="PostgreSQL allows lower-case letters, digits and underscores, at most 63 of them.",
        )
    if len(config.publication_name.encode()) > 63:
        raise ConfigError(
            f"publication name {config.publication_name!r} is too long", hint="PostgreSQL cuts names at 63 bytes."
        )
    for name in config.additional_tables:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"additional_tables has {name!r}", hint="Each is the name of a table.")


def _check_numbers(config: SourceConfig) -> None:
    port = config.port
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise ConfigError("the port cannot be used", hint="A port is a number from 1 to 65535.")
    for name in (*_TIMES, *_COUNTS):
        value = getattr(config, name)
        kinds = (int,) if name in _COUNTS else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < float("inf"):
            whole = "whole " if name in _COUNTS else ""
            raise ConfigError(f"{name} is {value!r}", hint=f"It must be a {whole}number greater than zero.")


def _check_dsn_options(config: SourceConfig, own: Mapping[str, str]) -> None:
    given, seen = config.dsn_options, set()
    if not isinstance(given, tuple) or not all(_is_pair(one) for one in given):  # not shown: it may hold a password
        raise ConfigError(
            "dsn_options are not pairs of a name and a text", hint='Write them as [["sslcompression", "0"]].'
        )
    for name, value in given:
        if name == "connect_timeout" or (name in own and not (name == "port" and config.port is None)):
            option = own.get(name, name)
            raise ConfigError(f"dsn_options has {name}, which is an option itself", hint=f"Give it as {option}.")
        if not is_parameter(name):
            raise ConfigError("dsn_options has a parameter that libpq does not know", hint=_PARAMETERS)
        if name in seen:
            raise ConfigError(f"dsn_options has {name} twice", hint="Keep one of the two.")
        if "\0" in value:
            raise ConfigError(f"{name} in dsn_options has a zero byte", hint="PostgreSQL has no texts with one.")
        seen.add(name)


def _is_pair(one: Any) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and all(isinstance(part, str) for part in one)


def _check_row_filter(given: Any) -> None:
    listed = given if isinstance(given, Mapping) else {"*": given or "true"}
    for table, text in listed.items():
        if not isinstance(table, str) or not isinstance(text, str) or not text.strip():
            raise ConfigError(
                f"the row filter of {table!r} is not an SQL condition",
                hint="Give one condition for every table, or a mapping: {'public.orders': \"status = 'open'\"}.",
            )


def _check_column_list(given: Any) -> None:
    listed = given if isinstance(given, Mapping) else {"*": given or "-"}
    for table, names in listed.items():
        each = comma_separated(names) if isinstance(names, str) else names
        good = isinstance(each, Sequence) and each and all(isinstance(n, str) and n.strip() for n in each)
        if not isinstance(table, str) or not good:
            raise ConfigError(
                f"the column list of {table!r} is not a list of columns",
                hint="Give one list for every table, or a mapping: {'public.orders': ['id', 'status']}.",
            )


def _check_column_forms(given: Any) -> None:
    if not isinstance(given, Mapping) or not all(form in ("text", "native") for form in given.values()):
        raise ConfigError(
            f"column_forms is {given!r}",
            hint="It maps schema.table.column to 'text' or 'native': {'public.orders.due': 'text'}.",
        )
