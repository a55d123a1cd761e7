"""How a relation is published, as a person reads it: its pace, its Delta table, what comes next and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog import publishing
from penstock.catalog.relations import Relation
from penstock.errors import ConfigError
from penstock.refresh.pace import Pace

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine


def explain_publishing(engine: Engine, relation: Relation) -> str:
    """Without Spark; the next step is told from what is known of the segments, so changes may still cancel."""
    own = publishing.pace_of(engine.catalog, relation.name)
    pace = Pace.of(own or engine.settings.publish_interval)
    text = f"every {pace.seconds:g} s" if pace.kind == "interval" else pace.kind
    lines = [f"published {text}{'' if own else ' (the setting of the home)'} into {engine.home.base(relation.folder)}"]
    base = engine.reader.base(relation)
    lines.append("  now: not there yet" if base is None else f"  now: version {base.delta_version}, {base.rows:,} rows")
    if done := publishing.history(engine.catalog, relation.id, 1):
        lines.append(f"  last: {done[0].how} in {done[0].seconds:.1f} s ({done[0].error or done[0].reason})")
    lines.append(f"  next: {_next(engine, relation)}")
    return "\n".join(lines)


def _next(engine: Engine, relation: Relation) -> str:
    from penstock.lake.publish import forecast

    try:
        _, position, _ = engine.position(relation.name)
    except ConfigError as error:
        return error.message
    choice = forecast(engine.reader, relation, position)
    return f"{choice.how}: {choice.reason}"
