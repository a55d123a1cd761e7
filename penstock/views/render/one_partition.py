"""Joins of tables that are in one partition each stay in one.

What an inner join gives is in one partition by its left side and by its right side, and Spark (4.2) takes that for no
answer at all: it shuffles both sides of the next join, each in a stage of its own. A COALESCE(1) in between moves
nothing, and is an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.views.expressions.sql import Sql, column, number
from penstock.views.render.hints import COALESCE, add_hint, hints

JoinHint = Callable[[Sequence[str]], exp.Anonymous | None]
"""How tables of a FROM, in order, are to be joined."""
_NESTED = "j"  # an alias ends with a number otherwise, and has no underscore


def in_one_partition(query: exp.Select, join_hint: JoinHint) -> exp.Select:
    """The same statement, where every join says so whose rows are joined again."""
    joins = list(query.args.get("joins") or ())
    for table in [query.args["from_"].this, *(join.this for join in joins)] if joins else ():
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select):
            table.set("this", gathered_if_joined(table.this))
    inner = [place for place, join in enumerate(joins, 1) if not _keeps_left(join)]
    if inner and inner[0] < len(joins):
        return in_one_partition(_nested(query, inner[0], join_hint), join_hint)
    return query


def gathered_if_joined(query: exp.Select) -> exp.Select:
    """A statement that others join, with a word about its rows where these come of an inner join."""
    if _comes_of_inner_join(query):
        add_hint(query, COALESCE)
    return query


def _comes_of_inner_join(query: exp.Select) -> bool:
    if COALESCE in hints(query):
        return False
    if any(not _keeps_left(join) for join in query.args.get("joins") or ()):
        return True
    first = query.args["from_"].this if query.args.get("from_") else None
    return isinstance(first, exp.Subquery) and isinstance(first.this, exp.Select) and _comes_of_inner_join(first.this)


def _keeps_left(join: exp.Join) -> bool:
    """Whether the rows are where those of the left side are: of an outer join, a semi join, an anti join."""
    return join.side == "LEFT"


def _nested(query: exp.Select, first: int, join_hint: JoinHint) -> exp.Select:
    """The first joins of a statement as a table of it, which has all that is read of them elsewhere.

    Of a copy, in which no two places share a node: a column is replaced in one place.
    """
    query = query.copy()
    begin, joins = query.args["from_"], query.args["joins"]
    aliases = [begin.this.alias, *(join.this.alias for join in joins)]
    within, name = set(aliases[: first + 1]), aliases[0] + _NESTED
    query.set("from_", None)
    query.set("joins", joins[first:])
    given: dict[str, Sql] = {}
    for one in list(query.find_all(exp.Column)):
        if one.table in within:
            moved = one.name if one.table.endswith(_NESTED) else f"{one.table}_{one.name}"
            given[moved] = exp.Alias(this=one.copy(), alias=exp.to_identifier(moved, quoted=True))
            there: Sql = column(moved, name)
            if one.parent is query and one.arg_key == "expressions":  # it is the name of what the statement gives
                there = exp.Alias(this=there, alias=exp.to_identifier(one.name, quoted=True))
            one.replace(there)
    inside = exp.Select(expressions=list(given.values()) or [exp.alias_(number("1"), "_one")])
    inside.set("from_", begin)
    inside.set("joins", joins[:first])
    add_hint(inside, join_hint(aliases[: first + 1]))
    add_hint(inside, COALESCE)
    query.set("from_", exp.From(this=exp.Subquery(this=inside, alias=exp.TableAlias(this=exp.to_identifier(name)))))
    query.set("hint", None)
    add_hint(query, join_hint([name, *aliases[first + 1 :]]))
    return query
