"""What a home does about tables that changed, came or went: followed where nothing is lost, else copied again or ended.

What is wrong with one table is written down among the source's events and does not stop the others; only a source whose
owner wants to be asked (`pause`) stops.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from penstock.capture import membership
from penstock.capture.home_options import SchemaPolicy, schema_policy
from penstock.capture.leaves import rows_moved
from penstock.capture.recovery import check_server
from penstock.capture.surroundings import Surroundings
from penstock.catalog import copies, relations, source_events, sources
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Storage
from penstock.catalog.source_events import SourceEvent
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.errors import (
    BecameNullable,
    FormChanged,
    MissingPrivilege,
    NotFound,
    NotYet,
    PublicationLost,
    RowUnknown,
    SchemaChanged,
    SourceError,
    UnsafeTable,
)
from penstock.relation.home import Home

log = logging.getLogger("penstock.capture")
_LOOK = 10.0  # seconds between looks at a source's tables while it is captured all the time
_AGAIN = 60.0  # seconds until a table that was refused is tried again


class ChangedTables:
    """For the sources of one home; `alone` gives the lease of a source that nothing is capturing."""

    def __init__(self, home: Home, catalog: Catalog, alone: Callable[[str], AbstractContextManager[Lease]]) -> None:
        self._home = home
        self._catalog = catalog
        self._alone = alone
        self._looked: dict[str, float] = {}
        self._refused: dict[tuple[str, str], float] = {}
        self._reopened: dict[str, str] = {}
        self.following: set[str] = set()  # sources whose pause is over

    def policy(self, source: Source) -> SchemaPolicy:
        return "follow" if source.name in self.following else schema_policy(source.options)

    def look_around(self, name: str, *, now: bool) -> Mapping[str, str]:
        """Take in tables that are new, let go of those that are gone. Returns the tables whose columns changed.

        One query for all tables, asked `now` or if the last look was a while ago.
        """
        if not now and time.monotonic() - self._looked.get(name, -_LOOK) < _LOOK:
            return {}
        self._looked[name] = time.monotonic()
        source = sources.get(self._catalog, name)
        if source.checkpoint is None:
            return {}
        found = membership.look_around(self._catalog, source)
        self._take_up(source, found)
        changed = {table: columns for table, columns in found.changed.items() if table not in found.moved}
        return changed if self.policy(source) == "follow" else {}

    def explain(self, name: str, lost: PublicationLost | NotFound) -> bool:
        """Whether it is only that tables were dropped or made again since the last look. They are taken care of then.

        Of a table that waits for its copy, whoever goes on with that finds out.
        """
        source = sources.get(self._catalog, name)
        if source.checkpoint is None:
            return False
        found = membership.look_around(self._catalog, source)
        went = {*found.gone, *found.made_again}
        if isinstance(lost, PublicationLost):
            waiting = {one.name for one in copies.pending(self._catalog, source.id)}
            explained = bool(lost.tables) and lost.tables <= went | waiting
        else:
            explained = bool(went)
        if explained:
            self._take_up(source, found)
        return explained

    def _take_up(self, source: Source, found: Surroundings) -> None:
        if found.gone or found.made_again or found.new or found.moved:
            check_server(source)  # one that was put back, or promoted without them, lacks tables for another reason
        for table in found.gone:
            self._end(source, table, f"{table} does not exist any more")
        for table in found.made_again:
            self.copy_instead(source.name, SchemaChanged(f"{table} was made again", table=table))
        for table, what in found.moved.items():
            self.copy_instead(source.name, rows_moved(table, what))
        for table in found.new:
            self._take_in(source, table)

    def let_go(self, source: Source) -> None:
        """End what is not on the server, which is another one now: the rest can be copied from there."""
        for table in membership.look_around(self._catalog, source).gone:
            self._end(source, table, f"{table} does not exist on the server that took the place of the last one")

    def copy_instead(self, name: str, change: SchemaChanged) -> None:
        """A table that cannot be followed is copied again, and the source's others go on; if that may not be, stop.

        For a column that may be NULL now, opening again is enough: the catalog is asked then. A value that the form of
        a column cannot hold is no change while the table is copied: it chooses the form.
        """
        source = sources.get(self._catalog, name)
        if change.table is None or source.checkpoint is None:
            raise change
        misfit = isinstance(change, FormChanged)
        if isinstance(change, FormChanged) and change.column in source.options.get("column_forms", {}):
            raise change
        copied = any(one.name == change.table for one in copies.pending(self._catalog, source.id))
        if self.policy(source) == "pause" and not (misfit and copied):
            event = SourceEvent(change.table, "paused", change.message, source.captured, alert=True)
            source_events.record_once(self._catalog, source.id, event)
            raise change
        if isinstance(change, BecameNullable) and self._reopened.get(name) != change.message:
            self._reopened[name] = change.message
            return
        log.warning("%s: %s; it is copied again", name, change.message)
        event = SourceEvent(change.table, "resync", f"{change.message}; it is copied again", source.captured)
        try:
            with self._alone(name) as lease:
                membership.copy_again(self._catalog, lease, source, change.table, event, look=misfit)
        except (UnsafeTable, NotFound, MissingPrivilege) as refusal:
            self._end(source, change.table, f"{change.message}; it cannot be copied again: {refusal.message}")

    def copy_root(self, name: str, unknown: RowUnknown) -> None:
        """Rows may come to a root with a partition that is attached, and change before that is seen."""
        source = sources.get(self._catalog, name)
        storages = relations.storages(self._catalog, source.id)
        identifier = relations.ids_of_source(self._catalog, source.id).get(unknown.table, 0)
        if storages.get(identifier, Storage()).leaves is None:
            raise unknown
        self.copy_instead(name, SchemaChanged(unknown.message, hint=unknown.hint, table=unknown.table))

    def _take_in(self, source: Source, table: str) -> None:
        key = (source.name, table)
        if time.monotonic() - self._refused.get(key, -_AGAIN) < _AGAIN:
            return
        try:
            with self._alone(source.name) as lease:
                membership.take_in(self._home, self._catalog, lease, source, table)
        except (SourceError, NotYet) as refusal:
            if refusal.transient:
                raise
            self._refused[key] = time.monotonic()
            log.warning("%s: %s is not captured: %s", source.name, table, refusal.message)
            event = SourceEvent(table, "refused", refusal.message, source.captured, alert=True)
            source_events.record_once(self._catalog, source.id, event)

    def _end(self, source: Source, table: str, reason: str) -> None:
        log.warning("%s: %s", source.name, reason)
        event = SourceEvent(table, "ended", reason, source.captured, alert=True)
        with self._alone(source.name) as lease:
            membership.end(self._catalog, lease, sources.get(self._catalog, source.name), event)
