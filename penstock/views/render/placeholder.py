"""The SQL names what it reads by placeholders: a plain identifier per form of a relation, the same everywhere."""

from __future__ import annotations

import hashlib
import re

from penstock.views.algebra import Read


def placeholder(read: Read) -> str:
    """The table name that stands for a read.

    >>> placeholder(Read("delta", "shop.public.orders"))
    'delta__shop_public_orders_1a5600'
    """
    slug = re.sub(r"[^a-z0-9]+", "_", read.relation.lower()).strip("_")[:40]
    kind = "_".join((read.kind, *read.forms))
    return f"{kind}__{slug}_{hashlib.sha1(read.relation.encode()).hexdigest()[:6]}"
