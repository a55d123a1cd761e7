"""Text files of people: in UTF-8, or refused without a word of what is in them."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import ConfigError


def read_text(path: str | Path, shown: str | None = None) -> str:
    """The text of a file; errors call it `shown`."""
    name = shown or str(path)
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}", hint="Check the path and its rights.") from None
    except UnicodeDecodeError as error:
        place = error.start
    # Outside of the handler: the decoder's error holds the whole file, and would come along as its context.
    raise ConfigError(f"{name} is not UTF-8 (byte {place + 1})", hint="Save it as a text file in UTF-8.")
