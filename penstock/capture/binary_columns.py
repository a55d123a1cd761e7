"""PostgreSQL's binary form of a column's values into Arrow: exact, or a DecodeError that names the value."""

from __future__ import annotations

import pyarrow as pa

from penstock.capture.fields import Fields

# Send functions whose bytes are the value's text.
_TEXT_SENDS = frozenset({"textsend", "varcharsend", "bpcharsend", "namesend", "json_send", "enum_send"})


def is_binary(arrow: pa.DataType, send: str) -> bool:
    """Whether the kernel knows the binary form; every other type is asked for as text."""
    return arrow == pa.string() and send in _TEXT_SENDS


def from_binary(fields: Fields, arrow: pa.DataType, send: str) -> pa.Array:
    return fields.strings()
