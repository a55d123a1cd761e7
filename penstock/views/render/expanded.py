"""A function in FROM in SQL: a generator over an array in Spark's SELECT list, a lateral table in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from penstock.views.algebra import Expand
from penstock.views.expr import Col, Lit
from penstock.views.expressions.json_access import key_of, lambda_, let, members, starts, text_of, value_of
from penstock.views.expressions.sql import Sql, binary, case, cast, chain, column, fn, is_null, number, pg_cast, string
from penstock.views.expressions.temporal import made_interval
from penstock.views.render.block import Block, Source, select
from penstock.views.set_functions import INTERVAL

if TYPE_CHECKING:
    from penstock.views.render.renderer import Renderer


def expanded(render: Renderer, node: Expand, *, weighted: bool) -> Block:
    block = render.open_block(node.input)
    args = [render.dialect.expression(block.over(arg)) for arg in node.args]
    names = [name for name, _ in node.columns]
    if render.dialect.name == "postgres":
        alias = render.alias("f")
        how: Literal["left", "inner"] = "left" if node.outer else "inner"
        block.sources.append(Source(_lateral(node, args, names), alias, how=how, lateral=True))
        block.items |= {name: Col(name, c.pg, c.spark, True, alias) for name, c in node.columns}
        return block
    rows = _SPARK[node.function](node, args)
    generator = fn("INLINE_OUTER" if node.outer else "INLINE", rows)
    block.generated = exp.Aliases(this=generator, expressions=[exp.to_identifier(name, quoted=True) for name in names])
    return render.over(select(block, render.dialect, weighted=weighted), node, weighted=weighted)


def _lateral(node: Expand, args: list[Sql], names: list[str]) -> Sql:
    given = [_typed(node, place, arg) for place, arg in enumerate(args)]
    call = fn(node.function.upper(), *given).sql(dialect="postgres")
    columns = ", ".join(exp.to_identifier(name, quoted=True).sql(dialect="postgres") for name in names)
    number_ = " WITH ORDINALITY" if node.numbered else ""
    return exp.Var(this=f"SELECT * FROM {call}{number_} AS f ({columns})")


def _typed(node: Expand, place: int, arg: Sql) -> Sql:
    if node.function.startswith("jsonb"):
        return pg_cast(arg, "jsonb")
    given = node.args[place]
    if isinstance(given, Lit) and given.pg == INTERVAL:
        return made_interval(str(given.value))
    return arg


# Spark: an array of structs, one field per column ---------------------------------------------------------------------


def _structs(node: Expand, values: Sql, *fields: Callable[[Sql], Sql]) -> Sql:
    parts: list[Sql] = []
    for (name, _), made in zip(node.columns, fields, strict=False):
        parts += [string(name), made(column("x"))]
    if node.numbered:
        place = cast(binary("+", column("i"), number("1")), "bigint")
        whole = fn("NAMED_STRUCT", *parts, string(node.columns[-1][0]), place)
        return fn("TRANSFORM", values, lambda_(whole, "x", "i"))
    return fn("TRANSFORM", values, lambda_(fn("NAMED_STRUCT", *parts), "x"))


def _itself(value: Sql) -> Sql:
    return value


def _unnest(node: Expand, args: list[Sql]) -> Sql:
    """Several arrays side by side, the shorter ones with NULLs."""
    if len(args) == 1:
        return _structs(node, args[0], _itself)
    whole = [fn("COALESCE", arg, cast(fn("ARRAY"), given.spark)) for arg, given in zip(args, node.args, strict=True)]
    return _structs(node, fn("ARRAYS_ZIP", *whole), *(_field(place) for place in range(len(args))))


def _field(place: int) -> Callable[[Sql], Sql]:
    return lambda value: exp.Dot(this=value, expression=exp.to_identifier(str(place), quoted=True))


def _series(node: Expand, args: list[Sql]) -> Sql:
    """Empty where it would go the other way, which Spark refuses; a step of 0 is an error, as in PostgreSQL."""
    spark = node.columns[0][1].spark
    if spark.startswith("timestamp"):
        return _structs(node, _times(node, *args[:2]), _itself)
    first, last, *given = args
    step = given[0] if given else cast(number("1"), spark)
    zero = cast(fn("RAISE_ERROR", string("step size cannot equal zero")), f"array<{spark}>")
    up = chain("AND", binary(">", step.copy(), number("0")), binary("<=", first.copy(), last.copy()))
    down = chain("AND", binary("<", step.copy(), number("0")), binary(">=", first.copy(), last.copy()))
    numbers = case(
        (binary("=", step.copy(), number("0")), zero),
        (chain("OR", up, down), fn("SEQUENCE", first, last, step)),
        default=exp.Null(),
    )
    return _structs(node, numbers, _itself)


def _times(node: Expand, first: Sql, last: Sql) -> Sql:
    """Each is the one before and a step: a month after the 31st is the 28th, and then always."""
    step = node.args[2]
    assert isinstance(step, Lit)
    months, days, seconds = (int(part) for part in str(step.value).split(","))
    interval, up = made_interval(f"{months},{days},{seconds}"), max(months, days, seconds) > 0
    before = "<=" if up else ">="
    if not months:
        found = fn("SEQUENCE", first.copy(), last.copy(), interval)
    else:
        least = abs(months) * 28 + abs(days)
        apart = fn("ABS", fn("DATEDIFF", last.copy(), first.copy()))
        count = cast(binary("+", fn("CEIL", binary("/", apart, number(str(least)))), number("1")), "int")
        following = exp.Add(this=fn("ELEMENT_AT", column("t"), number("-1")), expression=interval)
        grown = fn("ARRAY_APPEND", column("t"), cast(following, node.columns[0][1].spark))
        listed = fn("SEQUENCE", number("1"), count)
        every = fn("AGGREGATE", listed, fn("ARRAY", first.copy()), lambda_(grown, "t", "n"))
        found = fn("FILTER", every, lambda_(binary(before, column("x"), last.copy()), "x"))
    return case((binary(before, first, last), found), default=exp.Null())


def _of(sign: str, wrong: str, *fields: Callable[[Sql], Sql]) -> Callable[[Expand, list[Sql]], Sql]:
    """The members of a JSON value that begins with `sign`; PostgreSQL refuses another."""

    def render(node: Expand, args: list[Sql]) -> Sql:
        def body(d: Sql) -> Sql:
            refused = cast(fn("RAISE_ERROR", string(wrong)), "array<string>")
            return case((is_null(d), exp.Null()), (starts(d.copy(), sign), members(d.copy())), default=refused)

        return _structs(node, let(args[0], body), *fields)

    return render


_OBJECT = "cannot take the members of a JSON value that is no object"
_ARRAY = "cannot take the elements of a JSON value that is no array"
_SPARK: dict[str, Callable[[Expand, list[Sql]], Sql]] = {
    "unnest": _unnest,
    "generate_series": _series,
    "jsonb_object_keys": _of("{", _OBJECT, key_of),
    "jsonb_each": _of("{", _OBJECT, key_of, value_of),
    "jsonb_each_text": _of("{", _OBJECT, key_of, lambda x: text_of(value_of(x))),
    "jsonb_array_elements": _of("[", _ARRAY, _itself),
    "jsonb_array_elements_text": _of("[", _ARRAY, text_of),
}
