"""A folder of `.sql` files, a stream table each: a header of comments, then its query.

    -- schedule: 5m
    -- mode: AUTO
    SELECT city, count(*) AS n FROM customers GROUP BY city

The name is the file's, unless the header has one. An error names the file and the line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, InvalidQuery, PenstockError
from penstock.sql.cursor import Cursor
from penstock.sql.grammar.stream_tables import CREATED, query
from penstock.sql.script import Piece, pieces, place
from penstock.text_file import read_text

_LINE = re.compile(r"--\s*([A-Za-z_]\w*)\s*:\s*(.*?)\s*$")
_SETTINGS = {name: one for name, one in CREATED.items() if name not in ("initialize", "refresh_mode")}
_KEYS = ("name", *_SETTINGS)


@dataclass(frozen=True)
class Definition:
    """A stream table as a file says it; `settings` are keywords of `create_stream_table`, `line` is the query's."""

    name: str
    query: str
    path: str
    line: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    publish: str | None = None

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def read_folder(folder: str | Path) -> list[Definition]:
    """All definitions of a folder and the folders in it, by path."""
    root = Path(folder)
    if not root.is_dir():
        raise ConfigError(f"there is no folder {root}", hint="Name the folder that has the .sql files.")
    hidden = [
        path for path in root.rglob("*.sql") if any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    paths = sorted(set(root.rglob("*.sql")) - set(hidden))
    if not paths:
        raise ConfigError(
            f"{root} has no .sql files", hint="Write one for each stream table: its query, with a header."
        )
    found = [read_file(path, str(path.relative_to(root))) for path in paths]
    by_name: dict[str, Definition] = {}
    for one in found:
        other = by_name.setdefault(one.name, one)
        if other is not one:
            raise ConfigError(
                f"{one.path}: stream table {one.name} is defined in {other.path} too",
                hint="Name one of them otherwise.",
            )
    return found


def read_file(path: Path, shown: str) -> Definition:
    return read(read_text(path, shown), shown)


def read(text: str, path: str) -> Definition:
    """
    >>> one = read("-- schedule: 5m\\n-- how many\\nSELECT count(*) AS n FROM t;", "views/total.sql")
    >>> one.name, one.query, one.place, one.settings
    ('total', 'SELECT count(*) AS n FROM t', 'views/total.sql:3', {'schedule': '5m'})
    """
    name, settings = _header(text, path)
    publish = settings.pop("publish", None)
    try:
        piece = _only(list(pieces(text, spark=False)))
        written = query(Cursor(piece))
    except PenstockError as error:
        error.message = f"{path}: {error.message}"
        raise
    return Definition(name or Path(path).stem, written, path, place(text, piece.start)[0], settings, publish)


def _only(found: list[Piece]) -> Piece:
    if not found:
        raise InvalidQuery("there is no query", hint="Write one after the header.")
    if len(found) > 1:
        line, column = place(found[1].text, found[1].start)
        raise InvalidQuery(f"line {line}, column {column}: a second statement", hint="A file has one query.")
    return found[0]


def _header(text: str, path: str) -> tuple[str | None, dict[str, Any]]:
    """The lines `-- key: value` at the top, up to the first line that is none."""
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line.strip())
        if match is None:
            if line.strip():
                break
            continue
        key, value = match[1].lower(), match[2]
        where = f"{path}:{number}"
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = (
                f"Did you mean {near[0]}?" if near else f"Keys are {', '.join(_KEYS)}; other comments come after them."
            )
            raise ConfigError(f"{where}: no key {key!r} of a stream table", hint=hint)
        setting = _SETTINGS[key][0] if key in _SETTINGS else key
        if setting in found:
            raise ConfigError(f"{where}: the {setting} is given twice", hint="Keep one of the two.")
        found[setting] = _checked(key, value, where)
    return found.pop("name", None), found


def _checked(key: str, value: str, where: str) -> Any:
    if key not in _SETTINGS:
        return value
    try:
        return _SETTINGS[key][1](value)
    except ConfigError as error:
        error.message = f"{where}: {error.message}"
        raise
