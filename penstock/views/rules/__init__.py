"""The law of each operator, one file each. A new operator is a file here and a line in this table."""

from __future__ import annotations

from penstock.views.algebra import Aggregate, Filter, Join, Project, Scan, UnionAll
from penstock.views.rules import aggregate, filter, join, project, scan, union_all
from penstock.views.rules.differentiator import Differentiator, Rule

RULES: dict[type, Rule] = {
    Scan: scan.RULE,
    Filter: filter.RULE,
    Project: project.RULE,
    Join: join.RULE,
    UnionAll: union_all.RULE,
    Aggregate: aggregate.RULE,
}

__all__ = ["RULES", "Differentiator", "Rule"]
