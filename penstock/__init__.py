"""penstock: PostgreSQL changes, captured exactly once, mirrored into a lakehouse, turned into views that stay fresh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.cut import Frontier
from penstock.errors import PenstockError
from penstock.lsn import Lsn

if TYPE_CHECKING:
    from penstock.session import Session, connect

__all__ = ["Frontier", "Lsn", "PenstockError", "Session", "connect"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`connect` and `Session` bring drivers and kernels with them: loaded when first asked for."""
    if name in ("Session", "connect"):
        from penstock import session

        return getattr(session, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
