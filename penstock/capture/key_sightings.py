"""Looks at the foreign keys of a source, beside other work, so that refreshes may rely on those that hold.

A look that begins after rows have come tells of a moment after them; that it ends later takes nothing away. It has a
thread, and connections, of its own: to ask takes longer than the commit that it is for has to wait for anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from penstock.capture.connection import Connection, connect, translated
from penstock.capture.held_keys import held_keys
from penstock.catalog import relations
from penstock.catalog.foreign_keys import Sighting
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.catalog.store import Connection as CatalogConnection
from penstock.errors import SourceUnreachable

Look = Future[list[Sighting] | None]


class KeySightings:
    """One look at a time, over a connection that stays open: to make one takes longer than to ask."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._thread = ThreadPoolExecutor(1, "penstock-keys")
        self._asking: Connection | None = None
        self._own: CatalogConnection | None = None  # the thread's

    def look(self, source: Source) -> Look:
        """Gives the foreign keys that hold now; None where nothing can be told of them."""
        return self._thread.submit(self._seen, source)

    def close(self) -> None:
        """A look that is under way is given up; safe to call twice."""
        if self._asking is not None:
            self._asking.cancel()
        self._thread.shutdown(cancel_futures=True)
        self._disconnect()
        if self._own is not None:
            self._catalog.drop(self._own)
            self._own = None

    def _seen(self, source: Source) -> list[Sighting] | None:
        self._own = self._catalog.connection
        known = relations.of_source(self._catalog, source.name)
        if not any(one.schema.foreign_keys for one in known):
            return None
        if not source.options.get("trust_foreign_keys", True):
            return []
        try:
            return self._held(source.dsn, [one.table for one in known])
        except SourceUnreachable:  # no connection to spare: they count up to where they were seen last
            return None

    def _held(self, dsn: str, tables: Sequence[str]) -> list[Sighting]:
        if self._asking is None:
            self._asking = connect(dsn)
        try:
            with translated():
                return held_keys(self._asking, tables)
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._asking is not None:
            self._asking.close()
            self._asking = None
