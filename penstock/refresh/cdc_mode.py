"""How the tables under a stream table are to be captured, as its owner asks for it.

The wish is stored with the stream table (none: the home's setting `cdc_mode`). Capture reads the WAL whatever the wish
is; triggers will follow. IMMEDIATE works inside the source's transactions and so excludes the WAL.
"""

from __future__ import annotations

import logging

from penstock.errors import ConfigError
from penstock.refresh.decision import IMMEDIATE

log = logging.getLogger("penstock.stream_tables")

CDC_MODES = ("auto", "trigger", "wal")
EFFECTIVE = "wal"


def checked(cdc_mode: str | None, mode: str, *, default: str = EFFECTIVE) -> str | None:
    """The wish, or an error where it is none or does not go with the refresh mode.

    >>> checked("WAL", "AUTO"), checked(None, "FULL")
    ('wal', None)
    """
    wish = None if cdc_mode is None else cdc_mode.lower()
    if wish is not None and wish not in CDC_MODES:
        raise ConfigError(f"no cdc_mode {cdc_mode!r}", hint=f"Choose one of {', '.join(CDC_MODES)}.")
    if mode.upper() == IMMEDIATE:
        if wish == "wal":
            raise ConfigError(
                "mode IMMEDIATE and cdc_mode 'wal' exclude each other",
                hint="IMMEDIATE works inside the source's transactions, the WAL is read after them: "
                "choose cdc_mode 'trigger' or 'auto', or another mode.",
            )
        if wish is None and default == "wal":
            log.info("the home's cdc_mode 'wal' has no meaning for mode IMMEDIATE")
    if wish == "trigger":
        log.warning("cdc_mode 'trigger' is stored; until there is capture by triggers, tables are read from the WAL")
    return wish
