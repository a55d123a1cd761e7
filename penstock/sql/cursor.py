"""A walk over the tokens of one statement: what may come next is asked for, and an error names all that was.

An error tells the line and column in the whole text. It never shows what is inside a quoted text: that may be a
password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import Token, TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError

from penstock.errors import InvalidQuery, NotYet, PenstockError
from penstock.sql.script import Piece, place

T = TypeVar("T")


class _Tokenizer(Postgres.Tokenizer):
    """PostgreSQL's tokens, also after words such as SHOW, which sqlglot's own leaves in one piece with what follows."""

    COMMANDS: ClassVar[set[TokenType]] = set()


_WORD = re.compile(r"[^\W\d]\w*\Z")
_TEXTS = (TokenType.STRING, TokenType.BYTE_STRING, TokenType.NATIONAL_STRING, TokenType.HEREDOC_STRING)


def tokens(text: str) -> list[Token]:
    return list(_Tokenizer(Postgres()).tokenize(text))


class Cursor:
    """Where a statement is read; `usage` is how it is written, the hint of an error."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.usage = ""
        try:
            self._tokens: Sequence[Token] = tokens(piece.text[piece.start : piece.end])
        except SqlglotError:  # its words quote the text around
            self._tokens = ()
            self.fail("the statement cannot be read here", hint="Check quotes and comments.")
        self._at = 0
        self._asked: list[str] = []

    # Asking -----------------------------------------------------------------------------------------------------------

    def accept(self, *words: str) -> bool:
        """Whether these words come next; then they are taken."""
        if self._words(len(words)) == list(words):
            self._advance(len(words))
            return True
        self._ask(" ".join(words))
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.unexpected()

    def begins(self, *words: str) -> int:
        """How many of these words come next."""
        found = self._words(len(words))
        return next((n for n, (one, wanted) in enumerate(zip(found, words, strict=False)) if one != wanted), len(found))

    def one_of(self, choices: Sequence[str], what: str) -> str:
        """A word or text that is one of these, in any case."""
        token = self._token
        if token is None or token.text.upper() not in [choice.upper() for choice in choices]:
            self._ask(f"{what} ({', '.join(choices)})")
            self.unexpected()
        self._advance()
        return next(choice for choice in choices if choice.upper() == token.text.upper())

    def name(self, what: str) -> str:
        """An identifier: lower case unless it is quoted."""
        token = self._token
        if token is not None and token.token_type is TokenType.IDENTIFIER:
            self._advance()
            return token.text
        if token is None or not self._is_word(token):
            self._ask(what)
            self.unexpected()
        self._advance()
        return token.text.lower()

    def dotted(self, what: str) -> str:
        """`orders`, `public.orders` or `shop.public.orders`."""
        parts = [self.name(what)]
        while self.accept_symbol("."):
            parts.append(self.name(what))
        return ".".join(parts)

    def text(self, what: str) -> str:
        token = self._token
        if token is None or token.token_type not in _TEXTS:
            self._ask(f"{what} in quotes")
            self.unexpected()
        self._advance()
        return token.text

    def accept_text(self) -> str | None:
        token = self._token
        if token is None or token.token_type not in _TEXTS:
            self._ask("a text in quotes")
            return None
        self._advance()
        return token.text

    def type_name(self) -> str:
        """A type as it is written, up to the next comma or the closing parenthesis around it."""
        start, depth = self.offset, 0
        while (token := self._token) is not None:
            written = self._source(token)
            if depth == 0 and written in (",", ")"):
                break
            depth += {"(": 1, ")": -1}.get(written, 0)
            self._advance()
        found = self.piece.text[start : self.offset].strip()
        if not found:
            self._ask("a type")
            self.unexpected()
        return found

    def number(self, what: str) -> int:
        token = self._token
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            self._ask(what)
            self.unexpected()
        self._advance()
        return int(token.text)

    def accept_symbol(self, symbol: str) -> bool:
        token = self._token
        if token is not None and token.text == symbol and self._source(token) == symbol:
            self._advance()
            return True
        self._ask(repr(symbol))
        return False

    def expect_symbol(self, symbol: str) -> None:
        if not self.accept_symbol(symbol):
            self.unexpected()

    def value(self) -> Any:
        """What an option may be: a text, a number, or a word such as true."""
        token = self._token
        if token is None or not (token.token_type in (*_TEXTS, TokenType.NUMBER) or self._is_word(token)):
            self._ask("a value")
            self.unexpected()
        self._advance()
        return token.text

    def checked(self, take: Callable[[], str], check: Callable[[str], T]) -> T:
        """What comes next, if `check` finds nothing wrong with it; else its error, with the place."""
        offset = self.offset
        taken = take()
        try:
            return check(taken)
        except PenstockError as error:
            raise self.placed(error, offset) from None

    # The rest ---------------------------------------------------------------------------------------------------------

    @property
    def at_end(self) -> bool:
        return self._token is None

    @property
    def offset(self) -> int:
        """Where the next token is, in the whole text."""
        token = self._token
        return self.piece.end if token is None else self.piece.start + token.start

    def rest(self) -> tuple[str, int]:
        """Everything that is left, as it is written, and where it begins."""
        start = self.offset
        self._at = len(self._tokens)
        return self.piece.text[start : self.piece.end], start

    def end(self) -> None:
        if not self.at_end:
            self._ask("the end of the statement")
            self.unexpected()

    def skip(self, count: int) -> None:
        """Past some tokens, whatever they are."""
        self._advance(count)

    # Errors -----------------------------------------------------------------------------------------------------------

    def unexpected(self) -> NoReturn:
        wanted = list(dict.fromkeys(self._asked))
        listed = wanted[0] if len(wanted) == 1 else f"{', '.join(wanted[:-1])} or {wanted[-1]}"
        self.fail(f"expected {listed}, found {self._found()}")

    def refuse(self, feature: str, hint: str, offset: int | None = None) -> NoReturn:
        """A clause that is known and not there yet."""
        raise self.placed(NotYet(feature, hint=hint), self.offset if offset is None else offset)

    def fail(self, message: str, *, hint: str | None = None, offset: int | None = None) -> NoReturn:
        where = offset if offset is not None else self.offset if self._tokens else self.piece.start
        raise self.placed(InvalidQuery(message, hint=hint or f"Write it as: {self.usage}"), where) from None

    def placed(self, error: PenstockError, offset: int) -> PenstockError:
        """An error, with the place before its message."""
        line, column = place(self.piece.text, offset)
        error.message = f"line {line}, column {column}: {error.message}"
        return error

    def _found(self) -> str:
        token = self._token
        if token is None:
            return "the end of the statement"
        return "a text in quotes" if token.token_type in _TEXTS else self._source(token)

    # Tokens -----------------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _words(self, count: int) -> list[str]:
        found = self._tokens[self._at : self._at + count]
        return [token.text.upper() if self._is_word(token) else "" for token in found]

    def _is_word(self, token: Token) -> bool:
        return _WORD.match(self._source(token)) is not None

    def _source(self, token: Token) -> str:
        """The token as it is written."""
        start = self.piece.start
        return self.piece.text[start + token.start : start + token.end + 1]

    def _advance(self, count: int = 1) -> None:
        self._at += count
        self._asked = []

    def _ask(self, what: str) -> None:
        self._asked.append(what)
