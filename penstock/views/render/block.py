"""A SELECT being built: what it reads, keeps and gives. Operators fold into one block while SQL allows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from penstock.views.expr import INT8, Call, Col, Expr, Lit, lit, substitute
from penstock.views.expressions.sql import Sql, bare, chain, number
from penstock.views.render.dialect import Dialect
from penstock.views.render.hints import add_hint
from penstock.views.render.one_partition import in_one_partition
from penstock.zset import WEIGHT


@dataclass
class Source:
    """A relation in FROM: joined on `on`, or, `semi` and `anti`, only asked whether there is a match."""

    table: Sql
    alias: str
    on: list[Expr] = field(default_factory=list)
    how: Literal["inner", "semi", "anti", "left", "full"] = "inner"
    broadcast: bool = False
    lateral: bool = False  # it reads the sources before it

    @property
    def asked(self) -> bool:
        return self.how in ("semi", "anti")


@dataclass
class Block:
    """`items` by name; `weight` the factors of the row's weight (none: 1). Rendered once, by `select`."""

    sources: list[Source]
    items: dict[str, Expr]
    weight: list[Expr] = field(default_factory=list)
    where: list[Expr] = field(default_factory=list)
    negative: bool = False
    group: list[Expr] | None = None  # grouped by these; items are then SQL of their own
    measures: dict[str, Sql] = field(default_factory=dict)
    generated: Sql | None = None  # a generator that makes several rows of each, under the names of its columns
    total: Sql | None = None  # the weight of a grouped block
    having: Sql | None = None

    @property
    def open(self) -> bool:
        """True while filters, projections and joins can still be folded in."""
        return self.group is None

    def over(self, expr: Expr) -> Expr:
        return substitute(expr, self.items)


def select(block: Block, dialect: Dialect, *, weighted: bool) -> exp.Select:
    """The block's statement; its weight is the column `_weight` where `weighted`."""
    given: list[Sql] = [_as(dialect.expression(e), name) for name, e in block.items.items()]
    given += [_as(sql, name) for name, sql in block.measures.items()]
    if block.generated is not None:
        given.append(block.generated)
    if weighted:
        given.append(_as(block.total if block.total is not None else weight_of(block, dialect), WEIGHT))
    if not given:
        given.append(_as(number("1"), "_one"))
    query = exp.Select(expressions=given)
    _add_sources(query, block, dialect)
    where = [dialect.expression(e) for e in block.where]
    where += [_exists(s, dialect) for s in block.sources if s.asked and not dialect.hints]
    if where:
        query.set("where", exp.Where(this=bare(chain("AND", *where))))
    if block.group:
        query.set("group", exp.Group(expressions=[_key(e, dialect) for e in block.group]))
    if block.having is not None:
        query.set("having", exp.Having(this=bare(block.having)))
    return in_one_partition(query, dialect.join_hint) if dialect.in_memory else query


def _key(expr: Expr, dialect: Dialect) -> Sql:
    """What to group by; a bare constant there would be the number of a column."""
    sql = dialect.expression(expr)
    return dialect.cast(sql, expr.pg, expr.spark) if isinstance(expr, Lit) else sql


def weight_of(block: Block, dialect: Dialect) -> Sql:
    factors = [dialect.expression(e) for e in block.weight]
    if block.negative:
        factors.insert(0, number("-1"))
    if not factors:
        return dialect.constant(lit(1, INT8))
    whole = factors[0]
    for factor in factors[1:]:
        whole = exp.Mul(this=whole, expression=factor)
    return whole


def _add_sources(query: exp.Select, block: Block, dialect: Dialect) -> None:
    first, *others = block.sources
    query.set("from_", exp.From(this=aliased(first)))
    add_hint(
        query, dialect.join_hint([s.alias for s in block.sources], [s.alias for s in block.sources if s.broadcast])
    )
    for source in others:
        if source.asked and not dialect.hints:
            continue
        join = exp.Join(this=aliased(source))
        if source.how == "inner" and not source.on:
            join.set("kind", "CROSS")
        else:
            join.set("on", _conditions(source, dialect))
        if source.how != "inner":
            join.set("side", "FULL" if source.how == "full" else "LEFT")
        if source.asked:
            join.set("kind", source.how.upper())
        query.append("joins", join)


def _exists(source: Source, dialect: Dialect) -> Sql:
    inner = exp.Select(expressions=[number("1")])
    inner.set("from_", exp.From(this=aliased(source)))
    inner.set("where", exp.Where(this=_conditions(source, dialect)))
    found = exp.Exists(this=inner)
    return exp.Not(this=found) if source.how == "anti" else found


def _conditions(source: Source, dialect: Dialect) -> Sql:
    return bare(chain("AND", *(dialect.expression(e) for e in source.on))) if source.on else exp.Boolean(this=True)


def aliased(source: Source) -> Sql:
    alias = exp.TableAlias(this=exp.to_identifier(source.alias))
    if isinstance(source.table, exp.Table):
        table = source.table.copy()
        table.set("alias", alias)
        return table
    if source.lateral:
        return exp.Lateral(this=exp.Subquery(this=source.table), alias=alias)
    return exp.Subquery(this=source.table, alias=alias)


def placed(conditions: list[Expr], tables: list[set[str]]) -> list[list[Expr]]:
    """Each condition beside the first table by which all it reads is known."""
    found: list[list[Expr]] = [[] for _ in tables]
    for condition in conditions:
        wanted, known = _tables(condition), set[str]()
        for place, aliases in enumerate(tables):
            known |= aliases
            if wanted <= known:
                found[place].append(condition)
                break
    return found


def _tables(expr: Expr) -> set[str]:
    if isinstance(expr, Col):
        return {expr.table}
    return set[str]().union(*(_tables(arg) for arg in expr.args)) if isinstance(expr, Call) else set()


def _as(value: Sql, name: str) -> Sql:
    if isinstance(value, exp.Column) and value.name == name:
        return value
    return exp.Alias(this=bare(value), alias=exp.to_identifier(name, quoted=True))
