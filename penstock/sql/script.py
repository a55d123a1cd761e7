"""A text of several statements, cut at its semicolons: each piece with the place where it begins.

A SELECT is Spark SQL and everything else PostgreSQL's, which differ in how a quote inside a text is written; so the
first word of a piece says how the rest of it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import InvalidQuery

_BLANK = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_QUERY = re.compile(r"(?:SELECT|WITH|VALUES)\b|\(", re.IGNORECASE)
_BETWEEN = r'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/'
_POSTGRES = re.compile(rf"[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'{_BETWEEN}|(\$\w*\$).*?\1|(;)|['\"`]|/\*|.", re.DOTALL)
_SPARK = re.compile(rf"'(?:[^'\\]|\\.|'')*'{_BETWEEN}|()(;)|['\"`]|/\*|.", re.DOTALL)
_OPENED = {"'": "a text", '"': "a quoted name", "`": "a quoted name", "/*": "a comment"}


@dataclass(frozen=True)
class Piece:
    """One statement: `text[start:end]` of the whole, without its semicolon and the blanks around it."""

    text: str
    start: int
    end: int

    @property
    def is_query(self) -> bool:
        return _QUERY.match(self.text, self.start) is not None


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, from 1.

    >>> place("ab\\ncd", 4)
    (2, 2)
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def pieces(text: str, *, spark: bool = True) -> Iterator[Piece]:
    """Without `spark`, a SELECT is PostgreSQL's too.

    >>> [text[one.start:one.end] for text in ["SHOW SOURCES; -- all\\n;SELECT ';' ;"] for one in pieces(text)]
    ['SHOW SOURCES', "SELECT ';'"]
    """
    position = 0
    while True:
        start = _after_blanks(text, position)
        if start == len(text):
            return
        end, position = _end(text, start, spark=spark)
        if end > start:
            yield Piece(text, start, start + len(text[start:end].rstrip()))


def _after_blanks(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return position if found is None else found.end()


def _end(text: str, start: int, *, spark: bool) -> tuple[int, int]:
    """Where the statement ends, and where the next may begin."""
    pattern = _SPARK if spark and _QUERY.match(text, start) else _POSTGRES
    for found in pattern.finditer(text, start):
        if found[2]:
            return found.start(), found.end()
        if found[0] in _OPENED:
            line, column = place(text, found.start())
            raise InvalidQuery(
                f"line {line}, column {column}: {_OPENED[found[0]]} begins here and does not end",
                hint="Close it; a quote inside a text is written twice.",
            )
    return len(text), len(text)
