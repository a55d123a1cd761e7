"""The law of each operator, one file each. A new operator is a file here and a line in this table."""

from __future__ import annotations

from penstock.views.algebra import (
    Aggregate,
    Constants,
    Exists,
    Expand,
    Filter,
    Join,
    Negate,
    OuterJoin,
    Project,
    Scan,
    UnionAll,
    Weigh,
    Window,
)
from penstock.views.rules import (
    aggregate,
    constants,
    exists,
    expand,
    filter,
    join,
    negate,
    outer_join,
    project,
    scan,
    union_all,
    weigh,
    window,
)
from penstock.views.rules.differentiator import Differentiator, Rule

RULES: dict[type, Rule] = {
    Scan: scan.RULE,
    Constants: constants.RULE,
    Filter: filter.RULE,
    Project: project.RULE,
    Join: join.RULE,
    OuterJoin: outer_join.RULE,
    Exists: exists.RULE,
    Expand: expand.RULE,
    UnionAll: union_all.RULE,
    Aggregate: aggregate.RULE,
    Weigh: weigh.RULE,
    Window: window.RULE,
    Negate: negate.RULE,
}

__all__ = ["RULES", "Differentiator", "Rule"]
