"""`(name = value, …)`: names may be dotted or quoted, values are texts, numbers or words."""

from __future__ import annotations

from penstock.sql.cursor import Cursor


def options(cursor: Cursor) -> dict[str, str]:
    cursor.expect_symbol("(")
    found: dict[str, str] = {}
    while True:
        offset = cursor.offset
        name = _name(cursor)
        cursor.expect_symbol("=")
        if name in found:
            cursor.fail(f"{name} is given twice", hint="Keep one of the two.", offset=offset)
        found[name] = str(cursor.value())
        if not cursor.accept_symbol(","):
            cursor.expect_symbol(")")
            return found


def _name(cursor: Cursor) -> str:
    text = cursor.accept_text()
    return cursor.dotted("the name of an option") if text is None else text
