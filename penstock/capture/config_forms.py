"""The forms a configuration is written in: a mapping with dotted names, the environment, a YAML file.

Every form ends in the keywords of `SourceConfig`, typed by its fields, so one set of checks serves all of them. A name
that is not known is refused with the nearest one.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import ConfigError
from penstock.text_file import read_text

CONNECTOR = "postgres-cdc"
PREFIX = "PENSTOCK_SOURCE_"
_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


def from_mapping(given: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """Keywords from names such as `slot.name` and `heartbeat.interval.ms`; `types` are the fields' annotations.

    >>> from_mapping({"slot.name": "s", "poll.interval.ms": "250"}, {"slot_name": "str", "poll_interval": "float"})
    {'slot_name': 's', 'poll_interval': 0.25}
    """
    connector = given.get("connector", CONNECTOR)
    if connector != CONNECTOR:
        raise ConfigError(f"connector {connector!r} is not known", hint=f"The connector here is {CONNECTOR!r}.")
    known = _names(types)
    options: dict[str, Any] = {}
    for name, value in given.items():
        if name == "connector":
            continue
        field, scale = known.get(str(name), (None, 1.0))
        if field is None:
            raise unknown_option(str(name), known)
        if field in options:
            raise ConfigError(f"{field} is given twice, once as {name}", hint="Keep one of the two.")
        converted = convert(field, value, types[field])
        options[field] = converted * scale if scale != 1.0 and _is_number(converted) else converted
    return options


def from_environment(environment: Mapping[str, str], prefix: str, types: Mapping[str, str]) -> dict[str, Any]:
    """Keywords from variables such as `PENSTOCK_SOURCE_SLOT_NAME` and `PENSTOCK_SOURCE_POLL_INTERVAL_MS`."""
    if not prefix:
        raise ConfigError("the prefix of the variables is empty", hint=f"Use a prefix such as {PREFIX}.")
    given = {name[len(prefix) :].lower(): value for name, value in environment.items() if name.startswith(prefix)}
    return from_mapping(given, types)


class _Once(yaml.SafeLoader):  # type: ignore[misc]
    """Refuses a mapping that has a name twice, of which YAML's own loader takes the last."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value in seen:
                line = name.start_mark.line + 1
                raise ConfigError(f"{name.value} is given twice (line {line})", hint="Keep one of the two.")
            seen.add(str(name.value))
        return node


def read_yaml(path: str | Path, *, hint: str) -> dict[str, Any]:
    """The mapping in a file; `hint` says how one is written."""
    text, failure = read_text(path), None
    try:
        read = yaml.load(text, _Once)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f" (line {place.line + 1}, column {place.column + 1})" if place is not None else ""
        failure = ConfigError(f"{path} is not YAML{where}", hint=hint)
    if failure is not None:  # outside of the handler: YAML's error quotes the line, which may hold a password
        raise failure
    if not isinstance(read, dict):
        raise ConfigError(f"{path} is not a mapping", hint=hint)
    return read


def from_yaml(path: str | Path, types: Mapping[str, str]) -> dict[str, Any]:
    """Keywords from a YAML file: a mapping, in which `slot: {name: …}` means the same as `slot.name: …`."""
    read = read_yaml(path, hint="Write it as `name: value` lines, such as `slot.name: shop`.")
    return from_mapping(_flat(read, types), types)


def convert(name: str, value: Any, kind: str) -> Any:
    """The value as the field's type, if it is written as text; anything else is left to the checks."""
    if not isinstance(value, str):
        return tuple(value) if kind.startswith("tuple[str") and isinstance(value, list) else value
    text = value.strip()
    if kind == "bool":
        return _boolean(name, text)
    if kind in ("int", "int | None", "float"):
        return _number(name, text, float if kind == "float" else int)
    if kind.startswith("tuple[str"):
        return comma_separated(text)
    if "Mapping" in kind and text.startswith("{"):
        return _mapping(name, text)
    return value


def pairs(given: Any) -> Any:
    """A mapping, or pairs in lists, as a tuple of pairs; anything else is left to the checks.

    >>> pairs({"sslcompression": "0"}), pairs([["sslcompression", "0"]]), pairs(5)
    ((('sslcompression', '0'),), (('sslcompression', '0'),), 5)
    """
    if isinstance(given, Mapping):
        return tuple(given.items())
    if not isinstance(given, list | tuple):
        return given
    return tuple(tuple(pair) if isinstance(pair, list) else pair for pair in given)


def comma_separated(text: str) -> tuple[str, ...]:
    """
    >>> comma_separated('id, "a, b" ,c')
    ('id', 'a, b', 'c')
    """
    return tuple(part.strip() for row in csv.reader([text], skipinitialspace=True) for part in row if part.strip())


def unknown_option(name: str, known: Iterable[str]) -> ConfigError:
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else f"Options are {', '.join(n for n in choices if '.' not in n)}."
    return ConfigError(f"no such source option: {name}", hint=hint)


def _names(types: Mapping[str, str]) -> dict[str, tuple[str, float]]:
    """Every spelling of every option: `slot_name`, `slot.name`, and for times also with `.ms`, as in `x_ms`."""
    names = {}
    for field, kind in types.items():
        names[field] = names[field.replace("_", ".")] = (field, 1.0)
        if kind == "float":
            names[f"{field}_ms"] = names[f"{field.replace('_', '.')}.ms"] = (field, 0.001)
    return names


def _flat(read: Mapping[Any, Any], types: Mapping[str, str], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in read.items():
        full = f"{above}{name}"
        if isinstance(value, Mapping) and "Mapping" not in types.get(full.replace(".", "_"), ""):
            inner = _flat(value, types, f"{full}.")
        else:
            inner = {full: value}
        twice = sorted(flat.keys() & inner.keys())
        if twice:
            raise ConfigError(f"{twice[0]} is given twice", hint="Keep one of the two.")
        flat |= inner
    return flat


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _boolean(name: str, text: str) -> bool:
    if text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    raise ConfigError(f"{name} is {text!r}", hint="It is true or false.")


def _number(name: str, text: str, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}", hint=f"It is a {'whole ' if kind is int else ''}number.") from None


def _mapping(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(
            f"{name} is neither one value nor a mapping", hint='Write a mapping as JSON: {"public.orders": "…"}.'
        ) from None
