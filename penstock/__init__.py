"""penstock: PostgreSQL changes, captured exactly once, mirrored into a lakehouse, turned into views that stay fresh."""

from __future__ import annotations

from penstock.cut import Frontier
from penstock.errors import PenstockError
from penstock.lsn import Lsn
from penstock.session import Session, connect

__all__ = ["Frontier", "Lsn", "PenstockError", "Session", "connect"]
__version__ = "0.1.0"
