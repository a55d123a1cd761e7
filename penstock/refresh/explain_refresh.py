"""What a refresh would do now, as a person reads it: its decision and what both ways cost, what of the inputs changed
and what is left out, and how each thing it needs would be read. Nothing is computed and Spark is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.catalog.stream_tables import StreamTable
from penstock.errors import Suspended
from penstock.lake.reader import GATHERED
from penstock.refresh.compute import Prepared
from penstock.refresh.costs import Costs
from penstock.refresh.decision import Action
from penstock.refresh.standing import Standing
from penstock.refresh.table_refresh import TableRefresh, Task, learned
from penstock.views import Read

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine


def explain_refresh(engine: Engine, table: StreamTable) -> str:
    """Of what is captured; stream tables that it reads are taken as they are."""
    standing = Standing.read(engine.catalog)
    refresh = TableRefresh(engine.catalog, engine.plans, standing, engine.settings.differential_max_change_ratio)
    costs = learned(engine.catalog, table.relation_id)
    try:
        task = refresh.decide(engine.reader.beside({}), table, ())
    except Suspended as why:
        return f"refreshed now: {why.message}"
    lines = [f"refreshed now: {task.decision.action}, {task.decision.reason}"]
    lines += [f"  {line}" for line in _costs(costs, task.changed_rows)]
    if task.changed_rows and task.decision.action is Action.DIFFERENTIAL:
        lines += [f"  {line}" for line in _reads(engine, refresh, task)]
    return "\n".join(lines)


def _costs(costs: Costs, changed: int | None) -> Iterator[str]:
    if costs.differential:
        rows, seconds = costs.differential[0]
        yield f"the last differential refresh took {seconds:.2f} s for {rows:,} changed rows"
    if costs.full:
        yield f"the last full one took {costs.full[0]:.2f} s"
    compared = costs.compare(changed) if changed else None
    if compared is not None:
        yield f"expected now: {compared.differential:.2f} s by difference, {compared.full:.2f} s in full"


def _reads(engine: Engine, refresh: TableRefresh, task: Task) -> Iterator[str]:
    reader = engine.reader
    if task.changed_rows and task.changed_rows > GATHERED:
        yield f"more than {GATHERED:,} changed rows: Spark reads the changes, and the states between their keys"
        return
    ready = refresh.prepared(reader, task)
    for one in task.inputs:
        changed = reader.changed_rows(one.relation, one.before, one.after)
        if (why := _left_out(ready, one.relation.name, changed)) is not None:
            yield f"left out: {one.relation.name}, {why}"
    for answer in ready.answers if ready is not None else ():
        yield f"reads {answer}"
    if ready is not None:
        yield "Spark runs one task over rows in memory" if ready.all_in_memory else "Spark scans what is not in memory"


def _left_out(ready: Prepared | None, name: str, changed: int) -> str | None:
    """Why the terms of an input are not there."""
    if not changed:
        return "which did not change"
    if ready is None or Read("delta", name) not in ready.deltas:
        return f"of whose {changed:,} changed rows none changed in a column that the view reads"
    return None
