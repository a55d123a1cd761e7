"""Relations as temporary views of a Spark session, all at one frontier, for plain Spark SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.catalog import relations, stream_tables
from penstock.errors import AmbiguousName
from penstock.lake.reader import Reader
from penstock.lake.session import quoted
from penstock.sql.select import one_frontier

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine
    from penstock.refresh.moments import Moment


def register(engine: Engine, names: Sequence[str], at: Moment | None) -> dict[str, str]:
    """Make the views; relation name to view name."""
    known = relations.every(engine.catalog)
    filled = {one.relation_id for one in stream_tables.every(engine.catalog) if one.frontier is not None}
    chosen = [relations.choose(known, name) for name in names] or [
        one for one in known if one.source is not None or one.id in filled
    ]
    frontier = one_frontier(engine.catalog, chosen) if at is None else at
    reader = Reader(engine.home, engine.catalog, lambda: engine.users_spark)
    titles = view_names([one.name for one in known])
    for relation in chosen:
        shaped, position, _ = engine.position(relation.name, frontier)
        reader.rows(shaped, position).createOrReplaceTempView(quoted(titles[relation.name]))
    return {one.name: titles[one.name] for one in chosen}


def view_names(names: Sequence[str]) -> dict[str, str]:
    """The last part of each name, with as many parts before it as are needed to tell it from all others.

    >>> view_names(["shop.public.orders", "shop.public.item", "shop.archive.item", "revenue"])
    {'shop.public.orders': 'orders', 'shop.public.item': 'public_item', 'shop.archive.item': 'archive_item', \
'revenue': 'revenue'}
    """
    parts = {name: name.split(".") for name in names}
    chosen = dict.fromkeys(names, 1)
    while True:
        made = {name: "_".join(parts[name][-chosen[name] :]) for name in names}
        times = Counter(made.values())
        twice = [name for name in names if times[made[name]] > 1 and chosen[name] < len(parts[name])]
        if not twice:
            break
        for name in twice:
            chosen[name] += 1
    for title, count in times.items():
        if count > 1:
            same = ", ".join(name for name in names if made[name] == title)
            raise AmbiguousName(f"{same} would all be the view {title!r}", hint="Register them one by one.")
    return made
