"""Time travel: which frontier is meant by an LSN, a moment, or a frontier written as text.

A moment means the log up to the first commit (or copy of a table) that is later: commit times need not have the order
of LSNs, and so nothing younger than the moment is ever shown. Before a table was copied nothing is known of it;
after the last capture nothing is known yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.catalog import relations, sources
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.cut import Frontier
from penstock.errors import ConfigError, NotRetained
from penstock.lsn import Lsn
from penstock.refresh.positions import readable
from penstock.relation.home import Home

Moment = Frontier | Lsn | datetime | str


def frontier_at(home: Home, catalog: Catalog, at: Moment) -> Frontier:
    """The frontier over all sources (an LSN: over the only one) that `at` means.

    Text is a frontier as JSON, an LSN such as 0/16B3748, or a time such as 2026-03-01T12:00:00+00:00.
    """
    meant = _parsed(at) if isinstance(at, str) else at
    match meant:
        case Frontier():
            return meant
        case datetime():
            known = [one for one in sources.every(catalog) if one.settled is not None]
            return Frontier({one.name: _cut_at(home, catalog, one, meant) for one in known})
        case Lsn():
            known = [one for one in sources.every(catalog) if one.settled is not None]
            if len(known) != 1:
                raise ConfigError(
                    f"{meant} is an LSN, and this home has {len(known)} sources",
                    hint=f"Name the source: Frontier(shop={meant!s}). All that can be read now: {readable(catalog)}.",
                )
            return Frontier({known[0].name: meant})


def _parsed(text: str) -> Frontier | Lsn | datetime:
    for parse in (Frontier.parse, Lsn.parse, datetime.fromisoformat):
        try:
            return parse(text)
        except (ValueError, AttributeError, ConfigError):
            continue
    raise ConfigError(
        f"{text!r} is neither a frontier, an LSN nor a time",
        hint='Write {"shop": "0/16B3748"}, 0/16B3748, or 2026-03-01T12:00:00+00:00.',
    )


def _cut_at(home: Home, catalog: Catalog, source: Source, moment: datetime) -> Lsn:
    if moment.tzinfo is None:
        raise ConfigError(f"{moment} has no time zone", hint="Add one: datetime(…, tzinfo=UTC), or +00:00 in a text.")
    row = catalog.one("SELECT moved_at FROM positions WHERE source_id = %s", source.id)
    if row is None or source.settled is None or moment > row["moved_at"]:
        raise NotRetained(
            f"source {source.name!r} was last captured before {moment}",
            hint="Call catch_up() first.",
        )
    events = [*_commits(home, catalog, source, moment), *_copies(catalog, source)]
    later = min((lsn for time, lsn in events if time > moment), default=None)
    return source.settled if later is None else Lsn(min(later - 1, source.settled))


def _commits(home: Home, catalog: Catalog, source: Source, moment: datetime) -> Iterator[tuple[datetime, int]]:
    """Time and LSN of captured commits, at least of all that are later; most segments tell that they have none."""
    for relation in relations.of_source(catalog, source.name):
        for segment in relations.segments(catalog, relation.id, -1, int(source.settled or 0)):
            if segment.checksum and (segment.last_time is None or segment.last_time <= moment):
                continue
            rows = pq.read_table(home.path(segment.path), columns=["_ts", "_lsn"], partitioning=None)
            commits = rows.filter(pc.is_valid(rows["_ts"])).group_by(["_ts", "_lsn"]).aggregate([])
            yield from zip(commits["_ts"].to_pylist(), commits["_lsn"].to_pylist(), strict=True)


def _copies(catalog: Catalog, source: Source) -> list[tuple[datetime, int]]:
    """When the copy of each table was complete here, and the LSN it is of."""
    rows = catalog.all(
        "SELECT min(o.committed_at) AS at, (SELECT min(from_position) FROM schema_versions WHERE relation_id = r.id) "
        "AS since FROM relations r JOIN segments s ON s.relation_id = r.id JOIN rounds o ON o.id = s.round "
        "WHERE r.source_id = %s AND NOT r.retired GROUP BY r.id",
        source.id,
    )
    return [(row["at"], row["since"]) for row in rows]
