"""The changelog's upkeep beside a run: a step at a time in a thread, so that capture never waits for it.

An error of a step that may pass is logged and the next step tries again; any other ends the run at its next turn.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from penstock.errors import Busy, PenstockError
from penstock.priority import go_behind

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

_SWEEP = 3600.0  # seconds between two lists of all files
log = logging.getLogger("penstock.changelog")


class Upkeep:
    """`step` is called often; every `maintenance_interval` seconds it starts a step."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._started = time.monotonic()  # a run first gets going
        self._swept: float | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def step(self) -> None:
        if self.running:
            return
        self.check()
        if time.monotonic() - self._started >= self._engine.settings.maintenance_interval:
            self._started = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="penstock upkeep")
            self._thread.start()

    def end(self) -> None:
        """Wait for the step under way: it is short, and what it began is better finished."""
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Raise what ended a step, unless that may pass."""
        error, self._error = self._error, None
        if isinstance(error, PenstockError) and error.transient:
            log.warning("the changelog's upkeep failed and will be tried again: %s", error.message)
        elif error is not None:
            raise error

    def _run(self) -> None:
        try:
            go_behind()
            now = time.monotonic()
            sweep = self._swept is None or now - self._swept > _SWEEP
            self._engine.maintain(sweep=sweep)
            self._swept = now if sweep else self._swept
        except Busy as error:
            log.debug("%s", error)  # another process of this home does it
        except BaseException as error:
            self._error = error
        finally:
            self._engine.catalog.leave()
