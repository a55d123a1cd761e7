"""Options of a source that mean something to a home, beside or instead of what they mean to its reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from penstock.capture.discover import SourceTable
from penstock.catalog.sources import is_partial
from penstock.errors import ConfigError, UnsafeTable

SchemaPolicy = Literal["follow", "pause", "ignore"]
_SYNONYMS = {"stop": "pause"}


def schema_policy(options: Mapping[str, Any]) -> SchemaPolicy:
    """What to do when a table changes its shape.

    `follow`: go on with the new shape where nothing is lost, else copy that table again while the others go on.
    `pause`: stop the source in front of the change until somebody decides. `ignore`: keep the columns as they are.
    """
    given = options.get("on_schema_change", "follow")
    chosen = _SYNONYMS.get(given, given)
    if chosen not in get_args(SchemaPolicy):
        raise ConfigError(
            f"on_schema_change {given!r} cannot be used", hint=f"Choose one of {', '.join(get_args(SchemaPolicy))}."
        )
    return chosen  # type: ignore[no-any-return]


def reader_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the reader of the source."""
    stops = schema_policy(options) == "pause"
    own = {name: value for name, value in options.items() if name != "sync_modes"}
    return {**own, "on_schema_change": "stop" if stops else "follow"}


def check_sync_modes(options: Mapping[str, Any], tables: Mapping[str, SourceTable]) -> None:
    """Rows that are not known can be told from those that are by their key."""
    for name, table in tables.items():
        if is_partial(options, name) and not table.schema.key:
            raise UnsafeTable(
                f"{name} has no key, so it cannot be streamed without a copy",
                hint=f"Add a primary key, or leave sync_mode of {name} out.",
            )
