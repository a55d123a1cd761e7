"""Functions in FROM: what they take, the types of their columns, and each row of a relation with the rows they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.schema import Column
from penstock.relation.types import PgType, spark_type
from penstock.views.algebra import Expand, Filter, Node, Project, outputs
from penstock.views.expr import BOOL, INT4, INT8, TEXT, TRUE, Col, Expr, Lit, call, kind, names
from penstock.views.expressions import arrays
from penstock.views.expressions.binder import Binder, refuse_types
from penstock.views.expressions.casts import cast_to
from penstock.views.expressions.convert import convert, fix
from penstock.views.expressions.json_access import jsonb
from penstock.views.expressions.temporal import interval_of, parse_interval

Types = list[tuple[PgType, str]]  # in PostgreSQL and in Spark, of each column
Bound = tuple[tuple[Expr, ...], Types]


def _unnest(args: Sequence[Expr], told: Sequence[PgType]) -> Bound:
    found = tuple(arrays.array(array, "unnest()") for array in args)
    return found, [arrays.element_of(array, pg) for array, pg in zip(found, told, strict=False)]


def _generate_series(args: Sequence[Expr], told: Sequence[PgType]) -> Bound:
    if kind(told[0]) in ("timestamp", "timestamptz"):
        return _series_of_times(args, told[0])
    whole = [fix(arg, told[0]) for arg in args]
    if told[0].oid not in (INT4.oid, INT8.oid) or any(kind(arg.pg) != "int" for arg in whole):
        raise refuse_types("generate_series()", args)
    spark = spark_type(told[0].arrow)
    return tuple(convert(arg, told[0], spark) for arg in whole), [(told[0], spark)]


def _series_of_times(args: Sequence[Expr], pg: PgType) -> Bound:
    if len(args) != 3:
        raise refuse_types("generate_series()", args)
    first, last, step = args
    if isinstance(step, Lit) and step.bare:
        step = _interval(exp.Interval(this=exp.Literal.string(step.value or "")))
    parts = [int(part) for part in str(step.value).split(",")] if isinstance(step, Lit) else []
    if not any(parts) or (min(parts) < 0 < max(parts)):
        raise UnsupportedQuery(
            "generate_series() of times needs a constant step in one direction", hint="Write interval '1 day'."
        )
    spark = spark_type(pg.arrow)
    return (*(convert(fix(arg, pg), pg, spark) for arg in (first, last)), step), [(pg, spark)]


def argument(binder: Binder, node: exp.Expr) -> Expr:
    """An argument of a function in FROM, which may also be an interval constant: `months,days,seconds`."""
    found = interval_of(node)
    if found is None or found[1] is not None:
        return binder.bind(node)
    return _interval(found[0])


def _interval(node: exp.Interval) -> Lit:
    return Lit(",".join(map(str, parse_interval(node))), INTERVAL, "string")


def _of_json(*types: PgType) -> Callable[[Sequence[Expr], Sequence[PgType]], Bound]:
    def bind(args: Sequence[Expr], told: Sequence[PgType]) -> Bound:
        if len(args) != 1:
            raise refuse_types("a function of JSON with several arguments", args)
        return (jsonb(args[0], "a function of JSON in FROM"),), [(pg, "string") for pg in types]

    return bind


INTERVAL = PgType(1186, -1, "interval")
_JSONB = PgType(3802, -1, "jsonb")
_FUNCTIONS: dict[str, Callable[[Sequence[Expr], Sequence[PgType]], Bound]] = {
    "unnest": _unnest,
    "generate_series": _generate_series,
    "jsonb_object_keys": _of_json(TEXT),
    "jsonb_array_elements": _of_json(_JSONB),
    "jsonb_array_elements_text": _of_json(TEXT),
    "jsonb_each": _of_json(TEXT, _JSONB),
    "jsonb_each_text": _of_json(TEXT, TEXT),
}


@dataclass(frozen=True)
class Called:
    """A call in FROM over what stands left of it."""

    name: str
    args: tuple[Expr, ...]
    columns: tuple[tuple[str, Column], ...]
    numbered: bool

    def beside(self, node: Node, side: str, on: tuple[Expr, ...]) -> Node:
        """The rows, each with those that the function gives for it."""
        if side not in ("", "LEFT"):
            raise UnsupportedQuery(f"{side} JOIN of a function is not supported in a view", hint="Use LEFT or JOIN.")
        asked = tuple(condition for condition in on if condition != TRUE)
        if side and asked:
            raise UnsupportedQuery(
                "LEFT JOIN of a function is ON true in a view", hint="Ask in WHERE, or with CASE in SELECT."
            )
        expanded = Expand(node, self.name, self.args, self.columns, self.numbered, outer=bool(side))
        return Filter(expanded, asked) if asked else expanded

    def reads(self) -> frozenset[str]:
        """What it reads of the tables left of it."""
        return frozenset(name for arg in self.args for name in names(arg))

    def seen(self) -> tuple[Col, ...]:
        return tuple(Col(name, column.pg, column.spark) for name, column in self.columns)


def called(name: str, args: Sequence[Expr], told: Sequence[PgType], given: Sequence[str], *, numbered: bool) -> Called:
    """`told` are the types that PostgreSQL gives the columns; `given` their names in the tree."""
    if any(isinstance(arg, Lit) and arg.bare and arg.value is None for arg in args):
        raise refuse_types(f"{name}()", args)
    bound, types = _FUNCTIONS[name](args, told)
    if numbered:
        types = [*types, (INT8, "bigint")]
    columns = tuple((new, Column(new, pg, spark)) for new, (pg, spark) in zip(given, types, strict=True))
    return Called(name, bound, columns, numbered)


@dataclass(frozen=True)
class Recorded:
    """jsonb_to_record and jsonb_to_recordset: members of an object, or of each of an array, as columns."""

    inner: Called | None  # the array's elements
    doc: Expr
    items: tuple[tuple[str, Expr], ...]

    def beside(self, node: Node, side: str, on: tuple[Expr, ...]) -> Node:
        own = tuple((col.name, col) for col in outputs(node))
        if self.inner is not None:
            rows = self.inner.beside(node, side, (TRUE,) if on else ())
        elif side not in ("", "LEFT"):
            raise UnsupportedQuery(f"{side} JOIN of a function is not supported in a view", hint="Use LEFT or JOIN.")
        else:
            rows = node
        asked = tuple(condition for condition in on if condition != TRUE)
        if side and asked:
            raise UnsupportedQuery("LEFT JOIN of a function is ON true in a view", hint="Ask in WHERE.")
        given = Project(rows, (*own, *self.items))
        return Filter(given, asked) if asked else given

    def reads(self) -> frozenset[str]:
        return names(self.doc)

    def seen(self) -> tuple[Col, ...]:
        return tuple(Col(name, expr.pg, expr.spark) for name, expr in self.items)


def recorded(name: str, doc: Expr, fields: Sequence[tuple[str, str, PgType]], value: str) -> Recorded:
    """`fields`: the key, the name in the tree and the type of each column."""
    inner, source = None, jsonb(doc, f"{name}()")
    if name == "jsonb_to_recordset":
        inner = called("jsonb_array_elements", [doc], [_JSONB], [value], numbered=False)
        source = inner.seen()[0]
    return Recorded(inner, doc, tuple((new, _member(source, key, pg)) for key, new, pg in fields))


def _member(doc: Expr, key: str, pg: PgType) -> Expr:
    """A member's text, read as the type's; null is NULL, also of jsonb."""
    found = call("json_get", doc, Lit(key, TEXT, "string"), pg=_JSONB, spark="string")
    text = call("json_text", found, pg=TEXT)
    if pg.oid == _JSONB.oid:
        return call("nullif", call("is_null", text, pg=BOOL), found, pg=_JSONB, spark="string")
    if kind(pg) == "text" and pg.typmod >= 4:
        raise refuse_types("varchar(n) of a member of JSON", (doc,))  # what is too long is an error there, not cut
    return text if kind(pg) == "text" else cast_to(text, pg)
