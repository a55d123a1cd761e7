"""A SQL expression becomes a typed expression: PostgreSQL says every type, the families say what may be computed.

`Binder.bind` is the only recursion; a family's handler binds its operands through it and decides how they convert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views.expr import BOOL, INT4, INT8, NUMERIC, TEXT, Expr, Lit, lit

Handler = Callable[["Binder", exp.Expr], Expr]

# Constants, columns, and pieces of another node's syntax: not asked about on their own.
_UNTOLD = (
    exp.Literal, exp.Null, exp.Boolean, exp.Column, exp.Paren, exp.Star, exp.If, exp.Interval, exp.Var, exp.DataType,
    exp.Identifier, exp.Tuple,
    # true or false, whatever the operands
    exp.Connector, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is,
    exp.Between, exp.In, exp.Like, exp.ILike, exp.Any, exp.All,
)  # fmt: skip

# What the parser may tell about a node beside its operands; anything else a handler would overlook, so it is refused.
_OPERANDS = frozenset({"this", "expression", "expressions"})
_READ: dict[type[exp.Expr], frozenset[str]] = {
    exp.Is: frozenset({"negate"}),
    exp.Like: frozenset({"negate"}),
    exp.ILike: frozenset({"negate"}),
    exp.Between: frozenset({"low", "high"}),
    exp.Case: frozenset({"ifs", "default"}),
    exp.Div: frozenset({"typed"}),
    exp.Cast: frozenset({"to"}),
    exp.Round: frozenset({"decimals"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.Trim: frozenset({"position"}),
    exp.Replace: frozenset({"replacement"}),
    exp.Concat: frozenset({"safe", "coalesce"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Greatest: frozenset({"ignore_nulls"}),
    exp.Least: frozenset({"ignore_nulls"}),
    exp.TimestampTrunc: frozenset({"unit"}),
    exp.Trunc: frozenset({"decimals"}),
    exp.Pad: frozenset({"fill_pattern", "is_left"}),
    exp.Repeat: frozenset({"times"}),
    exp.StrPosition: frozenset({"substr"}),
    exp.SplitPart: frozenset({"delimiter", "part_index"}),
    exp.ConcatWs: frozenset({"safe", "coalesce"}),
    exp.Translate: frozenset({"from_", "to"}),
    exp.TimeToStr: frozenset({"format"}),
    exp.RegexpReplace: frozenset({"replacement", "modifiers", "single_replace"}),
    exp.JSONExtract: frozenset({"only_json_types"}),
    exp.JSONExtractScalar: frozenset({"only_json_types", "json_type"}),
    exp.AtTimeZone: frozenset({"zone"}),
}


class Binder:
    """Binds the expressions of one SELECT: `columns` by (table, name), `types` as PostgreSQL told them."""

    def __init__(
        self,
        columns: Mapping[tuple[str, str], Expr],
        types: Mapping[exp.Expr, PgType],
        handlers: Mapping[type[exp.Expr], Handler],
    ) -> None:
        self._columns = columns
        self._types = types
        self._handlers = handlers

    def bind(self, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Paren):
            return self.bind(node.this)
        if isinstance(node, exp.Column):
            return self._columns[(node.table, node.name)]
        if isinstance(node, exp.Literal):
            return string_literal(node.name) if node.is_string else number_literal(node.name)
        if isinstance(node, exp.Null):
            return Lit(None, TEXT, "string", bare=True)
        if isinstance(node, exp.Boolean):
            return lit("true" if node.this else "false", BOOL)
        handler = self._handlers.get(type(node))
        if handler is None or _unread(node):
            raise refused(node)
        return handler(self, node)

    def type_of(self, node: exp.Expr) -> PgType:
        return self._types[node]


def _unread(node: exp.Expr) -> bool:
    given = {name for name, value in node.args.items() if value not in (None, False, [])}
    return not given <= _OPERANDS | _READ.get(type(node), frozenset())


def string_literal(value: str) -> Lit:
    return Lit(value, TEXT, "string", bare=True)


def number_literal(text: str) -> Lit:
    """PostgreSQL's type of a number as written.

    >>> number_literal("7").pg.name, number_literal("3000000000").pg.name, number_literal("1.50").spark
    ('integer', 'bigint', 'decimal(3,2)')
    """
    if text.isdigit() and int(text) < 2**31:
        return lit(int(text), INT4)
    if text.isdigit() and int(text) < 2**63:
        return lit(int(text), INT8)
    return numeric_literal(text)


def numeric_literal(text: str) -> Lit:
    value = Decimal(text)
    plain = format(value, "f")
    whole, _, fraction = plain.lstrip("-").partition(".")
    if len(whole) + len(fraction) > 38:
        raise UnsupportedQuery(f"the number {text} has more than 38 digits", hint="Round the constant.")
    precision = max(1, len(whole.lstrip("0")) + len(fraction))
    return Lit(plain, NUMERIC, f"decimal({precision},{len(fraction)})")


def described(root: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression whose types only PostgreSQL can tell."""
    for node in root.walk():
        if isinstance(node, (exp.Condition, exp.Func, exp.Cast)) and not isinstance(node, _UNTOLD) and _alone(node):
            yield node


def _alone(node: exp.Expr) -> bool:
    """Not the number inside an interval."""
    return node.find_ancestor(exp.Interval) is None


def refused(node: exp.Expr) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"{sql_name(node)} is not among the functions and operators a view may use",
        hint="docs/dialect.md lists them. Compute it in the source, or in a view that reads this one.",
    )


def sql_name(node: exp.Expr) -> str:
    """What a person calls the construct."""
    if isinstance(node, exp.Anonymous):
        return f"function {node.name.lower()}()"
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        written, call, _ = node.sql(dialect="postgres").partition("(")  # random(), not sqlglot's RAND()
        return f"function {(written if call else node.sql_name()).lower()}()"
    return f"`{node.sql(dialect='postgres')}`"


def refuse_types(what: str, args: Sequence[Expr]) -> UnsupportedQuery:
    shown = ", ".join(arg.pg.name for arg in args)
    return UnsupportedQuery(
        f"{what} on {shown} is not supported in a view",
        hint="docs/dialect.md lists what each type allows; a value held as text may only be compared for equality.",
    )
