"""Stream tables: made, altered, dropped, refreshed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog import stream_tables
from penstock.cut import Frontier
from penstock.errors import Busy
from penstock.refresh.alter import Alteration, Change
from penstock.refresh.dag import upstream_first
from penstock.sql.answer import Answer
from penstock.sql.statements import AlterStreamTable, CreateStreamTable, DropStreamTable, RefreshStreamTable

if TYPE_CHECKING:
    from penstock.session import Session


def create(ps: Session, asked: CreateStreamTable) -> Answer:
    exists = stream_tables.lookup(ps.catalog, asked.name) is not None
    if exists and asked.if_not_exists:
        return Answer(message=f"Stream table {asked.name} exists already; nothing was changed.")
    if exists and asked.replace:
        settings = {one: value for one, value in asked.settings.items() if one != "initialize"}
        done = ps.replace_stream_table(asked.name, asked.query, **settings)
        _publish(ps, asked.name, asked.publish)
        return Answer(message=_altered(asked.name, done))
    ps.create_stream_table(asked.name, asked.query, **asked.settings)
    _publish(ps, asked.name, asked.publish)
    return Answer(message=f"Stream table {asked.name} {'is as asked for already' if exists else 'is created'}.")


def alter(ps: Session, asked: AlterStreamTable) -> Answer:
    if asked.if_exists and stream_tables.lookup(ps.catalog, asked.name) is None:
        return Answer(message=f"There is no stream table {asked.name}; nothing was changed.")
    done = ps.alter_stream_table(asked.name, **asked.settings)
    _publish(ps, asked.name, asked.publish)
    status = {"SUSPENDED": " It is suspended.", "ACTIVE": " It is refreshed on schedule."}
    return Answer(message=_altered(asked.name, done) + status.get(asked.settings.get("status", ""), ""))


_SAID = {
    Change.UNCHANGED: "has that definition already",
    Change.ALTERED: "is altered",
    Change.REINITIALIZED: "is altered, and computed anew at its next refresh",
    Change.REBUILT: "is rebuilt with other columns, and empty until its next refresh",
}


def _altered(name: str, done: Alteration) -> str:
    return f"Stream table {name} {_SAID[done.change]}{f' ({done.reason})' if done.reason else ''}."


def _publish(ps: Session, name: str, pace: str | None) -> None:
    if pace is not None:
        ps.set_publishing(name, pace)


def drop(ps: Session, asked: DropStreamTable) -> Answer:
    """Those that read before those that are read. What is refused is refused before any of them is dropped."""
    missing = [name for name in asked.names if stream_tables.lookup(ps.catalog, name) is None]
    if missing and not asked.if_exists:
        stream_tables.get(ps.catalog, missing[0])
    gone: list[str] = []
    for name in _readers_first(ps, [name for name in asked.names if name not in missing]):
        gone += [] if name in gone else ps.drop_stream_table(name, cascade=asked.cascade)
    said = [f"Dropped: {', '.join(gone)}."] if gone else []
    said += [f"There is no stream table {name}." for name in missing]
    return Answer(message=" ".join(said))


def _readers_first(ps: Session, names: list[str]) -> list[str]:
    """With those first that others read: without CASCADE they are refused."""
    reads: dict[str, list[str]] = {}
    for one in ps.monitor.dependencies():
        reads.setdefault(one.stream_table, []).append(one.reads)
    order = [name for name in reversed(upstream_first(names, reads)) if name in names]
    others = {name for reader, inputs in reads.items() if reader not in names for name in inputs}
    return sorted(order, key=lambda name: name not in others)


def refresh(ps: Session, asked: RefreshStreamTable) -> Answer:
    """To all that is committed now; where another process captures, to what that one has captured."""
    if asked.name is not None:
        stream_tables.get(ps.catalog, asked.name)
    frontier, note = _captured(ps)
    if asked.name is None:
        done = list(ps.refresh_all(to=frontier).values())
    else:
        done = [ps.refresh(asked.name, to=frontier, full=asked.full)]
    columns = ("stream_table", "action", "reason", "inserted", "deleted", "seconds")
    rows = tuple(
        (one.name, str(one.action), one.reason, one.inserted, one.deleted, round(one.seconds, 3)) for one in done
    )
    return Answer(columns, rows, note)


def _captured(ps: Session) -> tuple[Frontier | None, str]:
    try:
        return ps.catch_up(), ""
    except Busy:
        return None, "Another process captures the sources; this is up to where it has come."
