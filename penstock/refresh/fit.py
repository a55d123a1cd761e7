"""Whether a view still fits what it reads: its plan is over the shapes that its inputs had when it was defined.

Columns that the view does not use may come, go and change as they like. One that it uses must be the same column, with
the same name and type; then the view is planned over the shape it knows, whatever else the input has by now.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.catalog.relations import Relation
from penstock.catalog.stream_tables import Dependency
from penstock.relation.schema import Column, Schema


def misfit(known: Dependency, relation: Relation) -> str | None:
    """What keeps the view from reading the relation as it is now."""
    for name in known.columns:
        was, now = known.shape.column(name), _named(relation.schema, name)
        if now is None:
            return f"column {name} of {relation.name} {_became(was, relation.schema)}"
        if was.attnum and now.attnum != was.attnum:
            return f"column {name} of {relation.name} is another column now"
        if (was.pg, was.spark) != (now.pg, now.spark):
            return f"column {name} of {relation.name} is {_typed(now)}, was {_typed(was)}"
    if _identities(known.shape) != _identities(relation.schema):
        return f"the key of {relation.name} is ({', '.join(relation.schema.key)}), was ({', '.join(known.shape.key)})"
    return None


def renamed(known: Dependency, relation: Relation) -> dict[str, str]:
    """Names now and as the view knows them, of the columns it was defined over, if only names of such were changed.

    Not where another column has the old name by now: the query may mean that one.
    """
    now = {column.attnum: column for column in relation.schema.columns if column.attnum}
    names: dict[str, str] = {}
    for was in known.shape.columns:
        found = now.get(was.attnum)
        taken = _named(relation.schema, was.name)
        if found is None or (was.pg, was.spark) != (found.pg, found.spark) or (taken not in (None, found)):
            if was.name in known.columns:
                return {}
            continue
        names[found.name] = was.name
    same_key = _identities(known.shape) == _identities(relation.schema)
    return names if same_key and any(new != old for new, old in names.items() if old in known.columns) else {}


def shape_for(known: Dependency, relation: Relation) -> Schema:
    """The shape to plan the view over: the known one, with what the relation promises of it now."""
    present = {column.name: column for column in relation.schema.columns}
    columns = tuple(
        replace(column, nullable=present[column.name].nullable) if column.name in known.columns else column
        for column in known.shape.columns
    )
    enforced = tuple(key for key in known.shape.foreign_keys if key in relation.schema.foreign_keys)
    return replace(known.shape, columns=columns, foreign_keys=enforced)


def _named(schema: Schema, name: str) -> Column | None:
    return next((column for column in schema.columns if column.name == name), None)


def _became(was: Column, now: Schema) -> str:
    renamed = [column.name for column in now.columns if was.attnum and column.attnum == was.attnum]
    return f"is now called {renamed[0]}" if renamed else "was dropped"


def _typed(column: Column) -> str:
    return f"{column.pg.name} held as {column.spark}"


def _identities(schema: Schema) -> list[int | str]:
    return sorted((schema.column(name).attnum or name for name in schema.key), key=str)
