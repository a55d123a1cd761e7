"""Every error penstock raises on purpose, each with a hint on what to do next.

    PenstockError
    ├── ConfigError            an option, argument or home that cannot be used
    │   └── NotYet             a named feature that this release does not have
    ├── AlreadyExists          the name is taken by something different
    ├── NotFound               no such source, table, stream table or pin
    │   └── AmbiguousName      a short name that fits several relations
    ├── InvalidQuery           SQL that does not parse, or names what is not there
    ├── UnsupportedQuery       valid SQL that penstock cannot keep fresh
    ├── SourceError            the source database cannot be used as it is
    │   ├── SourceUnreachable  nothing listens, connection cut, server restarting (transient)
    │   │   └── AccessRefused  wrong password, certificate or database: the same call will fail again
    │   ├── SlotInUse          somebody else reads the slot (transient: it may be our own, not yet noticed dead)
    │   ├── PublicationLost    the publication is gone, or no longer gives what was asked for
    │   ├── MissingPrivilege
    │   ├── NoSlotLeft
    │   ├── UnsafeTable        capturing it would make the application's own statements fail
    │   ├── SchemaChanged      the table no longer has the shape that was captured
    │   │   ├── FormChanged    a value came that only the text form of its column can hold
    │   │   ├── BecameNullable a NULL came where none was allowed
    │   │   └── ChangedMeanwhile DDL came between a look at the table and the lock on it (transient)
    │   ├── RowUnknown         a change of a row that is not known here
    │   ├── DecodeError        a value that cannot be held without loss
    │   ├── NotStreamed        a transaction that the server cannot decode, or not before it is complete
    │   └── SlotLost           the slot is gone, or ahead of what is durable here
    ├── CatalogError           the catalog cannot be reached or used
    │   ├── Busy               another live process holds the lease
    │   └── LeaseLost          this process was replaced; nothing it still does can commit
    ├── StorageFull            a file here could not be written for lack of room (transient)
    ├── StorageDamaged         a file here is gone, or is not what was written
    ├── NotRetained            the asked frontier can no longer, or not yet, be read
    ├── RefreshError           a refresh could not be computed
    │   └── Suspended          the stream table does not fit what it reads any more
    └── PublishError           a Delta table is not as penstock left it

Whether to try again is decided by class: `transient` is True only where the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Collection


class PenstockError(Exception):
    """Base of all penstock errors: `message` says what happened to what, `hint` what to do next."""

    transient = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nHint: {self.hint}" if self.hint else self.message


class ConfigError(PenstockError):
    """An option, argument or home that cannot be used."""


class NotYet(ConfigError):
    """A named feature that this release does not have."""

    def __init__(self, feature: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"{feature} is not available yet", hint=hint or "The changelog lists what each release brings."
        )


class AlreadyExists(PenstockError):
    """The name is taken by something different."""


class NotFound(PenstockError):
    """No such source, table, stream table or pin."""


class AmbiguousName(NotFound):
    """A short name that fits several relations."""


class InvalidQuery(PenstockError):
    """SQL that does not parse, or names what is not there."""


class UnsupportedQuery(PenstockError):
    """Valid SQL that penstock cannot keep fresh."""


class SourceError(PenstockError):
    """The source database cannot be used as it is."""


class SourceUnreachable(SourceError):
    """Nothing listens, the connection was cut, or the server is restarting."""

    transient = True


class AccessRefused(SourceUnreachable):
    """Wrong user, password, certificate or database: a person must change something first."""

    transient = False


class SlotInUse(SourceError):
    """Somebody else reads the slot; it may be our own connection that the server has not noticed dead."""

    transient = True


class PublicationLost(SourceError):
    """The publication is gone, or no longer gives what was asked for: changes made meanwhile cannot be read.

    `tables` are those that left it, if it is only that.
    """

    def __init__(self, message: str, *, hint: str | None = None, tables: Collection[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.tables = frozenset(tables)


class MissingPrivilege(SourceError):
    """The role lacks a privilege that capture needs."""


class NoSlotLeft(SourceError):
    """The server has no free replication slot or WAL sender."""

    transient = True


class UnsafeTable(SourceError):
    """Capturing the table would make the application's own statements fail."""


class SchemaChanged(SourceError):
    """The table no longer has the shape that was captured; `table` is its name, as it was captured."""

    def __init__(self, message: str, *, hint: str | None = None, table: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.table = table


class FormChanged(SchemaChanged):
    """A value came that its column's form cannot hold, `schema.table.column`: to the column, a change of its type."""

    def __init__(
        self, message: str, *, hint: str | None = None, table: str | None = None, column: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, table=table)
        self.column = column


class BecameNullable(SchemaChanged):
    """A NULL came where none was allowed: opened again, the source knows its new shape."""


class ChangedMeanwhile(SchemaChanged):
    """DDL came between a look at a table and the lock on it, before anything was copied."""

    transient = True


class RowUnknown(SourceError):
    """A change of a row that is not known here, of `table`, as it was captured."""

    def __init__(self, message: str, *, hint: str | None = None, table: str = "") -> None:
        super().__init__(message, hint=hint)
        self.table = table


class DecodeError(SourceError):
    """A value that cannot be held without loss."""


class NotStreamed(SourceError):
    """The server cannot decode a transaction, or not before it is complete: open ones are then not asked for."""


class SlotLost(SourceError):
    """The slot is gone, or ahead of what is durable here: a person decides."""


class CatalogError(PenstockError):
    """The catalog cannot be reached or used."""


class Busy(CatalogError):
    """Another live process holds the lease."""

    transient = True


class LeaseLost(CatalogError):
    """This process was replaced; nothing it still does can commit."""


class StorageFull(PenstockError):
    """A file here could not be written for lack of room."""

    transient = True


class StorageDamaged(PenstockError):
    """A file here is gone, or is not what was written."""


class NotRetained(PenstockError):
    """The asked frontier can no longer, or not yet, be read."""


class RefreshError(PenstockError):
    """A refresh could not be computed."""


class Suspended(RefreshError):
    """A stream table does not fit what it reads any more."""


class PublishError(PenstockError):
    """A Delta table is not as penstock left it."""
