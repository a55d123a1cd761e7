"""The life of a source: added, captured, removed.

Everything is checked before anything is made. What will be made on the server is written down first, so whatever
interrupts the first copy, the next call finds the left-over slot and starts again, and `remove` finds it too.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from penstock.capture import membership
from penstock.capture import recovery as recovery_steps
from penstock.capture.attach import remove as remove_from_server
from penstock.capture.changed_tables import ChangedTables
from penstock.capture.checks import check
from penstock.capture.config import SourceConfig
from penstock.capture.connection import connect
from penstock.capture.home_copy import Progress
from penstock.capture.home_options import reader_options, schema_policy
from penstock.capture.ingest import Ingest, Settle
from penstock.capture.publication import read_publication
from penstock.capture.recovery import Recovery
from penstock.capture.selection import Selection
from penstock.capture.source_apply import SourcePlan
from penstock.catalog import copies, dropped, relations, sources, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.errors import (
    AlreadyExists,
    ConfigError,
    NotFound,
    NotYet,
    PublicationLost,
    RowUnknown,
    SchemaChanged,
    SlotLost,
    SourceError,
)
from penstock.failpoint import FailpointReached
from penstock.lsn import Lsn
from penstock.relation.home import Home

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}\Z")

# Values that are for callers of the package, and what a home does instead.
_EXPLAINED = 3  # losses of a publication that tables explain, in one call: a given one may go on lacking a table
_OTHERWISE: dict[str, tuple[tuple[str, ...], str]] = {
    "snapshot_mode": (
        ("always", "initial_only"),
        "A home keeps what it copied and goes on: use 'initial', and resync() to copy a table again.",
    ),
    "consolidate": (("flush",), "A home can be read as of every commit, so changes keep theirs: leave it out."),
    "toast_handling": (
        ("require-full", "cache-unchanged", "sentinel", "fetch"),
        "A home fills in what the WAL left out from the row's earlier state, exactly: leave it out.",
    ),
}


class Captures:
    """The sources of one home; each is captured by at most one process at a time."""

    def __init__(self, home: Home, catalog: Catalog, settle: Settle | None = None) -> None:
        self._home = home
        self._catalog = catalog
        self._settle = settle
        self._open: dict[str, Ingest] = {}
        self._changes = ChangedTables(home, catalog, self._alone)
        self._resumed: set[str] = set()  # opened to follow what they were paused for

    def add(
        self, name: str, dsn: str, tables: Sequence[str], options: dict[str, Any], progress: Progress | None = None
    ) -> Source:
        """Register the source and copy its tables; again, it ends what was interrupted and takes in new tables.

        The slot has a name of its own, unless `slot_name` is among the options.
        """
        slot = options.get("slot_name")
        options = {option: value for option, value in options.items() if option != "slot_name"}
        _check_arguments(name, tables, options)
        known = sources.lookup(self._catalog, name)
        if known is None:
            self._register(name, dsn, tables, options, slot)
        elif (known.dsn, known.options) != (dsn, options) or slot not in (None, known.slot):
            raise AlreadyExists(
                f"source {name!r} exists with other settings",
                hint="`penstock source apply` changes settings, as after a failover the connection. Else use another "
                "name, or remove it first: that drops its slot and its tables here.",
            )
        elif known.checkpoint is not None:
            self._follow(known, tables)
        elif tuple(tables) != known.tables:  # nothing of it is durable: it starts with those asked for now
            with self._alone(name) as lease, self._catalog.commit(lease, None, "tables") as commit:
                sources.change_tables(commit, known.id, tables)
        if sources.get(self._catalog, name).state == "copying":
            self._copy(name, progress)
        return sources.get(self._catalog, name)

    def _follow(self, source: Source, tables: Sequence[str]) -> None:
        """Take in tables that are new, and leave out those that are not asked for any more."""
        plan = membership.compare(self._catalog, source, tables)
        if not plan.nothing:
            recovery_steps.check_server(source)
            with self._alone(source.name) as lease:
                membership.apply(self._home, self._catalog, lease, source, plan)

    def apply(self, wanted: SourcePlan, progress: Progress | None = None) -> None:
        """Bring a source to what a file says of it."""
        spec = wanted.spec
        known = sources.lookup(self._catalog, spec.name)
        if (
            known is not None
            and known.checkpoint is not None
            and (known.dsn, known.options) != (spec.dsn, spec.options)
        ):
            self._change(known, wanted)
        self.add(spec.name, spec.dsn, spec.tables, spec.options, progress)

    def _change(self, known: Source, wanted: SourcePlan) -> None:
        _check_arguments(known.name, wanted.spec.tables, wanted.spec.options)
        to_be = replace(known, dsn=wanted.spec.dsn, options=wanted.spec.options)
        with self._alone(known.name) as lease:
            if wanted.reselected:
                membership.select_anew(self._catalog, lease, to_be, wanted.reselected)
                return
            with self._catalog.commit(lease, None, "tables") as commit:
                sources.change_settings(commit, known.id, to_be.dsn, to_be.options)

    def resync(self, name: str, table: str, progress: Progress | None = None) -> None:
        """Copy one table again, while the others go on."""
        source = sources.get(self._catalog, name)
        if source.checkpoint is not None:
            with self._alone(name) as lease:
                membership.copy_again(self._catalog, lease, source, table)
        self._copy(name, progress)

    def copy_root(self, name: str, unknown: RowUnknown) -> None:
        """Have a root with a change of an unknown row copied again, when capture goes on; of another table, raise."""
        self._changes.copy_root(name, unknown)

    def alone(self, name: str) -> AbstractContextManager[Lease]:
        """The right to change a source's position and its tables, for as long as the block lasts."""
        return self._alone(name)

    @contextmanager
    def _alone(self, name: str) -> Iterator[Lease]:
        """The lease of a source that nothing is capturing."""
        self.close(name)
        with self._catalog.lease(f"source {name}") as lease:
            yield lease

    def _register(self, name: str, dsn: str, tables: Sequence[str], options: dict[str, Any], slot: str | None) -> None:
        suffix = secrets.token_hex(3)
        publication = options.get("publication_name") or f"penstock_{name}"
        slot = slot or f"penstock_{name}_{suffix}"
        config = SourceConfig.from_dsn(
            dsn, tables=tables, slot_name=slot, **{"publication_name": publication, **_options(options)}
        )
        check(
            dsn,
            tables,
            slot=slot,
            publication=options.get("publication_name"),
            assume_no_truncate=options.get("assume_no_truncate", False),
            selection=Selection.of(config),
            partitions=config.partitions,
        )
        with connect(dsn) as connection:
            found = read_publication(connection, publication)
        if found is not None and "publication_name" not in options:  # another home's: not ours to share
            publication = f"{publication}_{suffix}"
        elif found is not None and found.ours:
            raise AlreadyExists(
                f"publication {publication} was made by penstock for another source, and goes when that is removed",
                hint="Leave publication_name out or choose another; one that nobody uses any more can be dropped.",
            )
        sources.register(self._catalog, name, dsn, tables, options, slot, publication)

    def _copy(self, name: str, progress: Progress | None) -> None:
        """Copy what is not complete. Finished ranges stay whatever happens, and the next call goes on with them.

        An error or Ctrl-C in a first copy before there are any takes back what was made; a crash leaves it, and from
        then on so does an error. A source that had tables before is never taken back.
        """
        first = sources.get(self._catalog, name).checkpoint is None
        while True:
            try:
                return self._copy_once(name, progress, first=first)
            except SchemaChanged as change:
                self._copy_instead(name, change, first=first)

    def _copy_instead(self, name: str, change: SchemaChanged, *, first: bool) -> None:
        try:
            self._changes.copy_instead(name, change)
        except FailpointReached:
            raise
        except BaseException:
            if first:
                with self._alone(name):
                    self._take_back(name)
            raise

    def _copy_once(self, name: str, progress: Progress | None, *, first: bool) -> None:
        self.close(name)
        lease = self._catalog.lease(f"source {name}")  # Busy: somebody else's copy, not ours to take back
        try:
            ingest = Ingest(self._home, self._catalog, name, lease, progress=progress, settle=self._settle)
            self._open[name] = ingest
            ingest.finish_copies()
            ingest.reach(ingest.server_position())
        except (FailpointReached, SchemaChanged):
            self._stop(name)
            lease.release()
            raise
        except BaseException:
            self._stop(name)
            if first:
                self._take_back(name)
            lease.release()
            raise

    def _stop(self, name: str) -> None:
        ingest = self._open.pop(name, None)
        if ingest is not None:
            ingest.close()

    def _take_back(self, name: str) -> None:
        """Undo a source of which nothing is durable, under its lease."""
        source = sources.get(self._catalog, name)
        captured = relations.of_source(self._catalog, name)
        if source.state == "copying" and not captured and not copies.any_finished(self._catalog, source.id):
            remove_from_server(source.dsn, source.slot, source.publication)
            sources.forget(self._catalog, source.id)

    def catch_up(
        self, name: str, until: Lsn | None = None, *, finish: bool = True, wait: bool = True, follow: bool | None = None
    ) -> Lease:
        """Capture everything committed now, or up to `until`; returns the lease it is done under.

        Without `wait`, what has come by now is enough: the newest commits may still be on their way.

        `follow` goes on with a source that is paused in front of a schema change. Copies that were interrupted are
        finished, unless the caller comes again soon: while one is under way it holds locks on its tables, and nothing
        but another call ends it.
        """
        if follow or name in self._resumed:
            self.close(name)
            self._resumed.discard(name)
        if follow:
            self._changes.following.add(name)
            self._resumed.add(name)
        try:
            return self._catch_up(name, until, finish=finish, wait=wait)
        finally:
            if follow:
                self._changes.following.discard(name)

    def may_be_unsettled(self, name: str) -> bool:
        """Whether what was captured last may have left something that cannot be read yet."""
        return name not in self._open or self._open[name].unsettled

    def _catch_up(self, name: str, until: Lsn | None, *, finish: bool, wait: bool) -> Lease:
        changed = self._changes.look_around(name, now=finish)
        explained = 0
        while True:
            reading = name in self._open
            try:
                return self._catch_up_once(name, until, changed, finish=finish, wait=wait)
            except SlotLost:
                if not reading:
                    raise  # from the durable position; before, what was only read counted
            except SchemaChanged as change:
                self._changes.copy_instead(name, change)
                changed = {}
            except (PublicationLost, NotFound) as lost:
                explained += 1
                if explained > _EXPLAINED or not self._changes.explain(name, lost):
                    raise
                changed = {}

    def _catch_up_once(
        self, name: str, until: Lsn | None, changed: Mapping[str, str], *, finish: bool, wait: bool
    ) -> Lease:
        ingest = self._opened(name)
        try:
            if finish:
                ingest.finish_copies()
            if until is None and not wait:
                ingest.advance()
            else:
                ingest.reach(ingest.server_position() if until is None else until)
            if changed and until is None:
                ingest.take_up(changed)
            ingest.note_foreign_keys()
        except BaseException:
            self.close(name)
            raise
        return ingest.lease

    def _opened(self, name: str) -> Ingest:
        if name not in self._open:
            lease = self._catalog.lease(f"source {name}")
            policy = self._changes.policy(sources.get(self._catalog, name))
            try:
                self._open[name] = Ingest(self._home, self._catalog, name, lease, policy=policy, settle=self._settle)
            except BaseException:
                lease.release()
                raise
        return self._open[name]

    def close(self, name: str | None = None) -> None:
        """Stop capturing one source, or all."""
        for one in [name] if name else list(self._open):
            ingest = self._open.pop(one, None)
            if ingest is not None:
                try:
                    ingest.close()
                finally:
                    ingest.lease.release()

    def remove(self, name: str, *, force: bool = False) -> None:
        """Drop the slot and the publication, then everything here. `force` forgets a server that is gone."""
        source = sources.get(self._catalog, name)
        self._check_unread(name)
        self.close(name)
        with self._catalog.lease(f"source {name}") as lease:
            try:
                remove_from_server(source.dsn, source.slot, source.publication)
            except SourceError:
                if not force:
                    raise
            with self._catalog.commit(lease, None, "remove_source") as commit:
                sources.remove(commit, source.id)
        for folder in (self._home.base(f"tables/{name}"), self._home.changelog(f"tables/{name}")):
            shutil.rmtree(folder, ignore_errors=True)
        dropped.forget_under(self._catalog, f"changelog/tables/{name}/")

    def recreate(self, name: str, progress: Progress | None = None) -> Source:
        """After a lost slot: a new one, and all tables copied again under it, once everything is checked.

        If the copy itself fails, there is no source of this name any more, and nothing is left on the server.
        """
        source = sources.get(self._catalog, name)
        self._check_unread(name)
        config = SourceConfig.from_dsn(source.dsn, source.tables, source.slot, **_options(source.options))
        check(
            source.dsn,
            source.tables,
            publication=source.options.get("publication_name"),
            assume_no_truncate=config.assume_no_truncate,
            selection=Selection.of(config),
            partitions=config.partitions,
        )
        self.remove(name)
        return self.add(name, source.dsn, source.tables, source.options, progress)

    def recover(self, name: str, recovery: Recovery, progress: Progress | None = None) -> None:
        """Lead a source whose slot has passed its home on, the way that `recovery.look` found."""
        source = sources.get(self._catalog, name)
        if recovery.way == "replay":
            with self._alone(name):
                recovery_steps.replay(source, recovery)
            self.catch_up(name)
        elif recovery.way == "resync":
            if recovery.other_log is not None:
                self._changes.let_go(source)
            with self._alone(name) as lease:
                recovery_steps.renew(source, recovery)
                membership.copy_all_again(self._catalog, lease, source)
            self._copy(name, progress)

    def _check_unread(self, name: str) -> None:
        readers = stream_tables.readers_of_source(self._catalog, sources.get(self._catalog, name).id)
        if readers:
            raise ConfigError(
                f"source {name!r} is read by stream tables: {', '.join(readers)}", hint="Drop them first."
            )


def _options(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in reader_options(options).items() if key != "publication_name"}


def _check_arguments(name: str, tables: Sequence[str], options: dict[str, Any]) -> None:
    if not _NAME.match(name):
        raise ConfigError(
            f"{name!r} cannot be a source's name", hint="Use lower-case letters, digits and _, at most 40 of them."
        )
    if isinstance(tables, str) or not tables:
        raise ConfigError("tables must be a list of table names", hint='For example ["public.orders", "public.*"].')
    schema_policy(options)
    for option, (values, hint) in _OTHERWISE.items():
        if options.get(option) in values:
            raise NotYet(f"{option} {options[option]!r} for a home", hint=hint)
