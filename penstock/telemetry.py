"""Log lines for people or for programs.

What a line is about goes beside its text: `log.info("…", extra={"stream_table": …, "round": …})`. As text, only the
sentence is shown; as JSON, every line is an object with those fields, so that all lines of one round can be found.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Format = Literal["text", "json"]
_OWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """
    >>> record = logging.makeLogRecord({"name": "penstock.run", "msg": "done", "created": 0.0, "round": 7})
    >>> JsonFormatter().format(record)
    '{"at": "1970-01-01T00:00:00+00:00", "level": "INFO", "logger": "penstock.run", "message": "done", "round": 7}'
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname if record.levelno else "INFO",
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _stderr() -> TextIO:
    """The terminal itself: while Spark starts, what is written to file 2 goes into its log."""
    if sys.stderr is not sys.__stderr__:
        return sys.stderr
    return os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")


def log_to_stderr(form: Format = "text", level: str = "INFO") -> logging.Handler:
    """penstock's own lines only: Spark's and the embedded server's libraries log as well."""
    handler = logging.StreamHandler(_stderr())
    text = logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logger = logging.getLogger("penstock")
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler
