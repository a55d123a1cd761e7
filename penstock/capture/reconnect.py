"""When to try again, and when to stop for a person: decided by the class of an error, paced by a jittered backoff.

| category | error | what happens |
| --- | --- | --- |
| connection lost, replication time-out, server restarting | SourceUnreachable | tried again, 100 ms up to 30 s |
| the slot is (still) read by another process, no WAL sender free | SlotInUse, NoSlotLeft | tried again |
| DDL came before a copy that was about to begin | ChangedMeanwhile | tried again |
| wrong password, certificate, database | AccessRefused | stops |
| slot gone, invalidated, moved by somebody else; other server | SlotLost | stops: only a person may copy anew |
| publication gone, altered, or no longer complete | PublicationLost | stops |
| a transaction that cannot be decoded before it is complete | NotStreamed | whole ones are asked for; else stops |
| shape changed, value that cannot be held | SchemaChanged, DecodeError | stops: nothing is skipped |
| WAL lag exceeded | none | goes on; health() warns |
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.capture.attach import Attached, attach_restored
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.config import SourceConfig
from penstock.capture.connection import Connection, connect
from penstock.capture.slot import Identity
from penstock.errors import PenstockError, SlotLost, SourceError
from penstock.lsn import Lsn

_FIRST, _LONGEST = 0.1, 30.0  # seconds


@dataclass(frozen=True)
class Returned:
    """The source again: a connection for queries, and whose log it is."""

    connection: Connection
    identity: Identity


def may_retry(error: BaseException) -> bool:
    """True if the same connection may succeed later without anybody's doing."""
    return isinstance(error, SourceError) and error.transient


def delays(rng: random.Random, first: float = _FIRST, longest: float = _LONGEST) -> Iterator[float]:
    """Seconds to wait before each attempt: doubling from `first` to `longest`, each drawn from its upper half.

    Half of it is chance, so that readers that lost one server together do not come back together.
    """
    pause = first
    while True:
        yield pause * (0.5 + rng.random() / 2)
        pause = min(pause * 2, longest)


@dataclass
class Reconnecting:
    """One lost connection: why, how often it was tried, and when to try next.

    An attempt runs on a thread of its own, so that a poll keeps its time-out whatever the network does. `connected`
    says that an attempt succeeded; the pauses begin anew only once something was read after it.
    """

    reason: PenstockError
    attempt: int = 0
    connected: bool = False
    _delays: Iterator[float] = field(default_factory=lambda: delays(random.Random()))
    _due: float = 0.0
    _trial: _Trial | None = None

    def __post_init__(self) -> None:
        self._due = time.monotonic() + next(self._delays)

    def wait(self) -> float:
        """Seconds until the next attempt is due."""
        return max(0.0, self._due - time.monotonic())

    def failed(self, error: PenstockError) -> None:
        """Another attempt came to nothing, or what it made was lost before anything was read."""
        self.reason = error
        self.attempt += 1
        self.connected = False
        self._due = time.monotonic() + next(self._delays)

    def try_again(self, connecting: Callable[[], Returned], timeout: float) -> Returned | None:
        """What `connecting` gives, if it is done within `timeout`; raises what it raises, and counts it as failed."""
        deadline = time.monotonic() + timeout
        if self._trial is None:
            time.sleep(min(self.wait(), max(0.0, timeout)))
            if self.wait() > 0:
                return None
            self._trial = _Trial(connecting)
        if not self._trial.done.wait(max(0.0, deadline - time.monotonic())):
            return None
        trial, self._trial = self._trial, None
        if isinstance(trial.outcome, Returned):
            self.connected = True
            return trial.outcome
        if isinstance(trial.outcome, PenstockError):
            self.failed(trial.outcome)
        assert trial.outcome is not None
        raise trial.outcome

    def give_up(self) -> None:
        """Nobody waits any more; a connection that still comes about is closed."""
        if self._trial is not None:
            self._trial.abandon()

    def __str__(self) -> str:
        return f"reconnecting (attempt {self.attempt + 1}): {self.reason.message}"


class _Trial:
    """One attempt, on its own thread."""

    def __init__(self, connecting: Callable[[], Returned]) -> None:
        self.done = threading.Event()
        self.outcome: Returned | Exception | None = None
        self._lock = threading.Lock()
        self._abandoned = False
        threading.Thread(target=self._run, args=(connecting,), name="penstock-reconnect", daemon=True).start()

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            if isinstance(self.outcome, Returned):
                self.outcome.connection.close()

    def _run(self, connecting: Callable[[], Returned]) -> None:
        outcome: Returned | Exception
        try:
            outcome = connecting()
        except Exception as error:
            outcome = error
        with self._lock:
            self.outcome = outcome
            if self._abandoned and isinstance(outcome, Returned):
                outcome.connection.close()
        self.done.set()


def reattach(config: SourceConfig, tables: Sequence[str], state: Checkpoint, known: Lsn) -> Returned:
    """A new connection to the same source: everything is compared as at open(), nothing is made or copied.

    `known` is how far was read; a server whose log ends before it has forgotten commits that we may have delivered.
    Shapes are not compared here: what was altered meanwhile comes in the stream, as if it had never stopped.
    """
    first, *others = tables
    same = replace(config, table_name=first, additional_tables=tuple(others), snapshot_mode="never")
    connection = connect(config.dsn)
    try:
        attached = attach_restored(connection, same, state, None)
        _check_known(known, attached)
    except BaseException:
        connection.close()
        raise
    return Returned(connection, attached.identity)


def _check_known(known: Lsn, attached: Attached) -> None:
    """What was read past the checkpoint, and may be delivered yet, must be in the server's log too."""
    switch, end = attached.switch, attached.identity.position
    if switch is not None and known > switch:
        lost = f"the server was promoted without the log from {switch} to {known}, which was read already"
    elif known > end:
        lost = f"the server's log ends at {end}, before {known}, which was read from it"
    else:
        return
    raise SlotLost(
        lost,
        hint="It lost commits in a failover. Open the source again from the last checkpoint that was made durable: "
        "what was only read is thrown away, and if the server lacks more than that, it is refused.",
    )


def explained(error: PenstockError, config: SourceConfig, tables: Sequence[str], state: Checkpoint) -> PenstockError:
    """The server's refusal in our terms, where a look at slot and publication tells more than its own words."""
    if type(error) is not SourceError:
        return error
    try:
        reattach(config, tables, state, state.lsn).connection.close()
    except SourceError as better:
        if not may_retry(better):
            return better
    return error
