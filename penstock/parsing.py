"""SQL text to sqlglot's trees, with one kind of error for whatever is no SQL.

The parser is compiled: where it would go on with a part that is missing, it may stop with a TypeError instead.
"""

from __future__ import annotations

from itertools import pairwise

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError


def parse(text: str, dialect: str = "postgres") -> list[exp.Expr]:
    """The statements of a text; SqlglotError if it cannot be read.

    >>> [type(one).__name__ for one in parse("SELECT 1; SELECT 2")]
    ['Select', 'Select']
    >>> parse("0?")
    Traceback (most recent call last):
    sqlglot.errors.ParseError: the text does not parse
    """
    try:
        return [one for one in sqlglot.parse(_strpos(text), read=dialect) if one is not None]
    except (TypeError, AttributeError) as error:
        raise ParseError("the text does not parse") from error


def _strpos(text: str) -> str:
    """`"position"(s, 'b')`, as servers before 14 print position('b' in s), has its arguments the other way round for
    the parser; strpos has them so.

    >>> _strpos("SELECT \\"position\\"(s, 'b')")
    "SELECT strpos(s, 'b')"
    """
    if '"position"' not in text:
        return text
    words = sqlglot.tokenize(text, read="postgres")
    for one, following in reversed(list(pairwise(words))):
        if one.token_type == TokenType.IDENTIFIER and one.text == "position" and following.text == "(":
            text = f"{text[: one.start]}strpos{text[one.end + 1 :]}"
    return text


def parse_one(text: str, dialect: str = "postgres") -> exp.Expr:
    """The only statement of a text."""
    found = parse(text, dialect)
    if len(found) != 1:
        raise ParseError(f"expected one statement, found {len(found)}")
    return found[0]
