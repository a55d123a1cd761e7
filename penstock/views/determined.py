"""Whether the query says what a view's rows are, or leaves PostgreSQL a choice among rows that ORDER BY calls equal.

Where there is a choice a view takes one answer and keeps to it; PostgreSQL may give another, so the two cannot be
compared row by row.
"""

from __future__ import annotations

from penstock.views.algebra import Window, WindowFunction, outputs, walk
from penstock.views.expr import Col
from penstock.views.keys import keys_of
from penstock.views.view import View


def undetermined(view: View) -> tuple[str, ...]:
    """The window functions (LIMIT and DISTINCT ON are `row_number`) that have more than one right answer."""
    found = [
        function.op
        for node in walk(view.plan)
        if isinstance(node, Window)
        for function in node.functions
        if function.ties and not _tells_apart(node, function)
    ]
    return tuple(dict.fromkeys(found))


def _tells_apart(node: Window, function: WindowFunction) -> bool:
    """No two rows of a partition are equal in the order: it has a whole key, or all that is read of a row."""
    exprs = (*node.partition, *(one.expr for one in function.order))
    told = {expr.name for expr in exprs if isinstance(expr, Col)}
    return any(key <= told for key in keys_of(node.input)) or {col.name for col in outputs(node.input)} <= told
