"""A position in a PostgreSQL write-ahead log: an integer that prints as PostgreSQL prints it."""

from __future__ import annotations

from penstock.errors import ConfigError


class Lsn(int):
    """A log sequence number.

    >>> Lsn.parse("16/B374D848")
    Lsn('16/B374D848')
    >>> Lsn.parse("0/10") < Lsn(17)
    True
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Lsn:
        high, slash, low = text.partition("/")
        try:
            if not slash:
                raise ValueError(text)
            return cls((int(high, 16) << 32) | int(low, 16))
        except ValueError:
            raise ConfigError(
                f"{text!r} is not an LSN", hint="Write it as PostgreSQL does, for example 16/B374D848."
            ) from None

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        return f"Lsn('{self}')"
