"""A view as a person reads it: its operators as an indented tree, and the laws a change of given inputs uses."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.views.algebra import (
    Aggregate,
    Constants,
    Exists,
    Expand,
    Filter,
    Join,
    Measure,
    Node,
    OuterJoin,
    Project,
    Scan,
    UnionAll,
    Weigh,
    Window,
    inputs,
)
from penstock.views.determined import undetermined
from penstock.views.expr import Expr
from penstock.views.program import delta
from penstock.views.reach import Reach
from penstock.views.render import POSTGRES
from penstock.views.view import View, remembering


def explain(view: View, changed: frozenset[str] | None = None) -> str:
    """The tree, the key, what is remembered; and the laws, of all inputs unless `changed` names some."""
    moved = frozenset(relation.name for relation in view.inputs) if changed is None else changed
    numbers = {node: state.name for node, state in zip(remembering(view.plan), view.states, strict=True)}
    lines = [f"view {view.name}", *_tree(view.plan, numbers, 1)]
    lines.append(f"key: {', '.join(view.key) or ('at most one row' if view.singleton else 'unknown')}")
    lines += [f"remembers {state.name}: {', '.join(state.schema.names)}" for state in view.states]
    if open_to_choice := undetermined(view):
        lines.append(f"equal rows in the order of: {', '.join(open_to_choice)} (PostgreSQL may choose others)")
    lines.append(f"when {', '.join(sorted(moved)) or 'nothing'} changes:")
    program = delta(view, moved, "postgres")
    lines += [f"  {law}" for law in program.laws]
    if parts := program.parted().parts:
        lines.append(f"  {len(parts)} queries before it compute what it uses again and again")
    reached = {one.read: one for one in program.reach}
    for read in sorted(program.reads, key=str):
        lines.append(f"  reads {read.kind} of {read.relation}{_only(reached.get(read))}")
    return "\n".join(lines)


def _only(reached: Reach | None) -> str:
    if reached is None:
        return ""
    ties = [f"{', '.join(m.columns)} in {m.by.kind} of {m.by.relation}" for m in reached.matches]
    ties += [f"among the first {one.count} by {one.column}, and as many as are touched" for one in reached.first]
    return f", where {' or '.join(dict.fromkeys(ties)) or 'false'}"


def _tree(node: Node, numbers: dict[Aggregate, str], depth: int) -> list[str]:
    lines = ["  " * depth + _line(node, numbers)]
    for child in inputs(node):
        lines += _tree(child, numbers, depth + 1)
    return lines


def _line(node: Node, numbers: dict[Aggregate, str]) -> str:
    match node:
        case Scan():
            used = ", ".join(column.name for _, column in node.columns)
            return f"scan {node.relation.name} ({used})"
        case Constants():
            return f"values, {len(node.rows)} rows"
        case Filter():
            return f"σ filter {_all(node.predicates, ' AND ')}"
        case Project():
            return f"π project {', '.join(f'{name} = {_text(e)}' for name, e in node.items)}"
        case Join():
            return f"⋈ join on {_all(node.on, ' AND ')}" if node.on else "⋈ cross join"
        case OuterJoin():
            return f"{'⟗ full' if node.full else '⟕ left'} outer join on {_all(node.on, ' AND ') or 'true'}"
        case Exists():
            what = "▷ rows without a match" if node.negated else "⋉ rows with a match"
            return f"{what} on {_all(node.on, ' AND ') or 'true'}"
        case UnionAll():
            return "∪ union all"
        case Window():
            by = f" partitioned by {_all(node.partition, ', ')}"
            if not node.partition:
                by = " over all rows: a change sorts them, before and after"
            return f"window {', '.join(f.op for f in node.functions)}{by}"
        case Expand():
            what = f"{node.function}({_all(node.args, ', ')})"
            return f"ε each row with {what}{', or NULLs' if node.outer else ''}"
        case Weigh():
            return f"each row {_text(node.times)} times"
        case Aggregate():
            keys = ", ".join(_text(e) for _, e in node.keys) or "()"
            kept = ", ".join(_measure(m) for m in node.measures)
            return f"γ aggregate by {keys}: {kept} [{numbers[node]}]"
        case _:
            return type(node).__name__


def _measure(measure: Measure) -> str:
    args = ", ".join(_text(e) for e in (measure.arg, *measure.more) if e is not None) or "*"
    return f"{measure.how}({'distinct ' if measure.distinct else ''}{args})"


def _all(exprs: Iterable[Expr], between: str) -> str:
    return between.join(_text(e) for e in exprs)


def _text(expr: Expr) -> str:
    return POSTGRES.expression(expr).sql(dialect="postgres")
