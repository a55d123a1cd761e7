"""Stream tables: made, altered, dropped, refreshed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from penstock.errors import ConfigError
from penstock.parsing import parse_one
from penstock.refresh import schedule
from penstock.refresh.cdc_mode import CDC_MODES
from penstock.refresh.decision import Mode
from penstock.refresh.pace import Pace
from penstock.sql.cursor import Cursor, tokens
from penstock.sql.grammar.options import options
from penstock.sql.statements import AlterStreamTable, CreateStreamTable, DropStreamTable, RefreshStreamTable

MODES = (*Mode, "IMMEDIATE")
DIALECTS = ("postgres", "spark")
_STATUSES = ("ACTIVE", "SUSPENDED")
_TOKEN = re.compile(r" but got <Token.*>")  # sqlglot's own view of it
_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


def create(cursor: Cursor) -> CreateStreamTable:
    return _create(cursor, replace=False)


def create_or_replace(cursor: Cursor) -> CreateStreamTable:
    return _create(cursor, replace=True)


def _create(cursor: Cursor, *, replace: bool) -> CreateStreamTable:
    if_not_exists = not replace and cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a stream table")
    settings = Settings(cursor)
    while not cursor.accept("AS"):
        if not (settings.clause() or (cursor.accept("WITH") and settings.listed(CREATED))):
            cursor.unexpected()
    return CreateStreamTable(name, query(cursor), settings.found, settings.publish, replace, if_not_exists)


def alter(cursor: Cursor) -> AlterStreamTable:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the name of a stream table")
    settings = Settings(cursor)
    while True:
        if cursor.accept("AS"):
            settings.found["query"] = query(cursor)
            break
        if not (settings.status() or settings.clause(status=True) or _set(cursor, settings)):
            cursor.unexpected()
        if not cursor.accept_symbol(","):
            if cursor.accept("AS"):
                settings.found["query"] = query(cursor)
            break
    return AlterStreamTable(name, settings.found, settings.publish, if_exists)


def _set(cursor: Cursor, settings: Settings) -> bool:
    if not cursor.accept("SET"):
        return False
    return settings.clause(status=True) or settings.listed(ALTERED)


def drop(cursor: Cursor) -> DropStreamTable:
    if_exists = cursor.accept("IF", "EXISTS")
    names = [cursor.name("the name of a stream table")]
    while cursor.accept_symbol(","):
        names.append(cursor.name("the name of a stream table"))
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return DropStreamTable(tuple(dict.fromkeys(names)), if_exists, cascade)


def refresh(cursor: Cursor) -> RefreshStreamTable:
    return RefreshStreamTable(cursor.name("the name of a stream table"), full=cursor.accept("FULL"))


def refresh_all(cursor: Cursor) -> RefreshStreamTable:
    cursor.accept("STREAM", "TABLES")
    return RefreshStreamTable(None)


class Settings:
    """What is said of a stream table beside its query, by clause or by option; nothing twice."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.found: dict[str, Any] = {}
        self.publish: str | None = None

    def clause(self, *, status: bool = False) -> bool:
        """`SCHEDULE '5m'`, `CRON '…'`, `MODE AUTO`, `CDC_MODE 'wal'`, and `STATUS ACTIVE`."""
        cursor, offset = self._cursor, self._cursor.offset
        if cursor.accept("SCHEDULE"):
            self._put("schedule", cursor.checked(lambda: _word_or_text(cursor, "a schedule"), _schedule), offset)
        elif cursor.accept("CRON"):
            self._put("schedule", cursor.checked(lambda: cursor.text("a cron expression"), _cron), offset)
        elif cursor.accept("MODE"):
            self._put("mode", str(cursor.one_of(MODES, "a mode")), offset)
        elif cursor.accept("CDC_MODE"):
            self._put("cdc_mode", cursor.one_of(CDC_MODES, "a CDC mode"), offset)
        elif status and cursor.accept("STATUS"):
            self._put("status", cursor.one_of(_STATUSES, "a status"), offset)
        else:
            return False
        return True

    def status(self) -> bool:
        offset = self._cursor.offset
        if self._cursor.accept("SUSPEND"):
            self._put("status", "SUSPENDED", offset)
        elif self._cursor.accept("RESUME"):
            self._put("status", "ACTIVE", offset)
        else:
            return False
        return True

    def listed(self, known: dict[str, tuple[str, Callable[[str], Any]]]) -> bool:
        """Options in parentheses."""
        offset = self._cursor.offset
        for name, value in options(self._cursor).items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"Options are {', '.join(known)}."
                self._cursor.fail(f"no option {name} of a stream table", hint=hint, offset=offset)
            setting, check = known[name]
            try:
                checked = check(value)
            except ConfigError as error:
                raise self._cursor.placed(error, offset) from None
            if setting == "publish":
                self.publish = checked
            else:
                self._put(setting, checked, offset)
        return True

    def _put(self, setting: str, value: Any, offset: int) -> None:
        if setting in self.found:
            self._cursor.fail(f"the {setting} is given twice", hint="Keep one of the two.", offset=offset)
        self.found[setting] = value


def query(cursor: Cursor) -> str:
    """The rest of the statement, which must be one query in PostgreSQL's SQL."""
    text, start = cursor.rest()
    _refuse_emit(cursor, text, start)
    if not text:
        cursor.fail("expected a query, found the end of the statement")
    try:
        tree = parse_one(text)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = str(first.get("highlight") or "")
        inside = (first.get("start_context") or "") + near
        found = text.find(inside) + len(inside) - len(near) if near else len(text)
        what = _TOKEN.sub("", str(first.get("description") or "the query does not parse")).rstrip(".")
        said = f" near {near}" if near else ""
        cursor.fail(f"syntax error{said}: {what}", hint="A query is in PostgreSQL's SQL.", offset=start + max(found, 0))
    except SqlglotError:
        cursor.fail("the query cannot be read", hint="Check quotes and comments.", offset=start)
    if not isinstance(tree, exp.Query):
        cursor.fail("expected a SELECT", hint="A stream table is one query.", offset=start)
    return text


def _refuse_emit(cursor: Cursor, text: str, start: int) -> None:
    words = tokens(text)
    for one, following in pairwise(words):
        if one.text.upper() == "EMIT" and following.text.upper() in ("CHANGES", "ON", "FINAL"):
            cursor.refuse(
                "the EMIT clause",
                "Leave it out: a stream table gives its changes anyway (`changes`).",
                start + one.start,
            )


def _word_or_text(cursor: Cursor, what: str) -> str:
    """`'5m'`, or a word such as DOWNSTREAM."""
    text = cursor.accept_text()
    return cursor.name(f"{what} in quotes") if text is None else text


def _schedule(text: str) -> str:
    schedule.parse(text)
    return text


def _cron(text: str) -> str:
    if len(text.split()) != 5 and not text.startswith("@"):
        raise ConfigError(f"{text!r} is not a cron expression", hint="Write five fields, such as '*/5 * * * *'.")
    return _schedule(text)


def _chosen(choices: tuple[str, ...]) -> Callable[[str], str]:
    def check(text: str) -> str:
        for choice in choices:
            if choice.upper() == text.upper():
                return str(choice)
        raise ConfigError(f"{text!r} is none of {', '.join(choices)}", hint="Choose one of them.")

    return check


def boolean(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ConfigError(f"{text!r} is neither true nor false", hint="Write true or false.")
    return text.lower() in _TRUE


def _pace(text: str) -> str:
    Pace.parse(text)
    return text


ALTERED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "schedule": ("schedule", _schedule),
    "cron": ("schedule", _cron),
    "mode": ("mode", _chosen(MODES)),
    "refresh_mode": ("mode", _chosen(MODES)),
    "cdc_mode": ("cdc_mode", _chosen(CDC_MODES)),
    "status": ("status", _chosen(_STATUSES)),
    "publish": ("publish", _pace),
}
CREATED: dict[str, tuple[str, Callable[[str], Any]]] = {
    **{name: one for name, one in ALTERED.items() if name != "status"},
    "dialect": ("dialect", _chosen(DIALECTS)),
    "initialize": ("initialize", boolean),
}
