"""What a view may compute: a file per family with its tables (bind, Spark, Postgres). A new function is an entry."""

from __future__ import annotations

from penstock.views.expressions import (
    arithmetic,
    arrays,
    casts,
    comparison,
    conditional,
    json,
    json_access,
    json_change,
    json_contains,
    mathematics,
    patterns,
    strings,
    temporal,
    text,
)  # fmt: skip

FAMILIES = (
    arithmetic, mathematics, comparison, conditional, casts, text, strings, patterns, temporal, json, json_access,
    json_change, json_contains, arrays,
)  # fmt: skip

HANDLERS = {node: handler for family in FAMILIES for node, handler in family.BIND.items()}
SPARK = {op: render for family in FAMILIES for op, render in family.SPARK.items()}
POSTGRES = {op: render for family in FAMILIES for op, render in family.POSTGRES.items()}
