"""+ − * / % and numeric functions in PostgreSQL's result types; what overflows is an error, never NULL or rounded."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType, spark_type
from penstock.views import decimals
from penstock.views.expr import NUMERIC, Call, Expr, Lit, call, kind
from penstock.views.expressions.binder import Binder, Handler, refuse_types
from penstock.views.expressions.convert import convert
from penstock.views.expressions.json_access import JSONB
from penstock.views.expressions.json_change import without
from penstock.views.expressions.sql import Sql, binary, cast, fn, number
from penstock.views.expressions.temporal import interval_of, shift_time

_NUMBERS = frozenset({"int", "numeric", "float"})
_LEAST_WHOLE_DIGITS = 8  # fewer left of the point than this and ordinary values overflow: refused when the view is made

_OPS: dict[type[exp.Expr], str] = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.Mod: "mod"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_SHAPES = {"add": decimals.add, "sub": decimals.add, "mul": decimals.multiply, "mod": decimals.remainder}


def _bind_binary(binder: Binder, node: exp.Expr) -> Expr:
    op = _OPS[type(node)]
    if interval_of(node.expression) or interval_of(node.this):
        return shift_time(binder, node, op)
    if binder.type_of(node).oid == JSONB.oid:
        return without(binder, node)
    left, right = binder.bind(node.this), binder.bind(node.expression)
    if not {kind(left.pg), kind(right.pg)} <= _NUMBERS:
        return shift_time(binder, node, op)
    return arithmetic(op, left, right, binder.type_of(node))


def arithmetic(op: str, left: Expr, right: Expr, pg: PgType) -> Expr:
    """`left op right` where PostgreSQL's result type is `pg`.

    >>> from penstock.views.expr import Col, INT4
    >>> a = Col("a", INT4, "int"); b = Col("b", PgType(1700, -1, "numeric"), "decimal(12,2)")
    >>> arithmetic("mul", a, b, NUMERIC).spark, arithmetic("div", a, b, NUMERIC).spark
    ('decimal(23,2)', 'decimal(38,16)')
    """
    if kind(pg) in ("int", "float"):
        spark = spark_type(pg.arrow)
        return call(op, convert(left, pg, spark), convert(right, pg, spark), pg=pg, spark=spark)
    if kind(pg) != "numeric":
        raise refuse_types(_SIGNS[op], (left, right))
    a, b = decimals.decimal_of(left.spark), decimals.decimal_of(right.spark)
    if op == "div":
        a, b, quotient = decimals.division(a, b)
        exact = call("div", convert(left, pg, decimals.name(a)), convert(right, pg, decimals.name(b)),
                     pg=NUMERIC, spark=decimals.name(quotient))  # fmt: skip
        return convert(exact, NUMERIC, decimals.name((decimals.MAX, decimals.QUOTIENT_SCALE)))
    shape = _SHAPES[op](a, b)
    if shape[0] == decimals.MAX and shape[0] - shape[1] < _LEAST_WHOLE_DIGITS:
        raise UnsupportedQuery(
            f"{_SIGNS[op]} on {left.spark} and {right.spark} needs {shape[1]} digits after the point, "
            f"which leaves {shape[0] - shape[1]} before it",
            hint="Cast the operands to numeric(precision, scale) with the digits they really have.",
        )
    operands = (convert(x, NUMERIC, decimals.name(d)) for x, d in ((left, a), (right, b)))
    return call(op, *operands, pg=NUMERIC, spark=decimals.name(shape))


def _bind_negative(binder: Binder, node: exp.Expr) -> Expr:
    arg = binder.bind(node.this)
    if kind(arg.pg) not in _NUMBERS:
        raise refuse_types("unary minus", (arg,))
    if isinstance(arg, Lit) and arg.value is not None:
        return Lit(f"-{arg.value}", arg.pg, arg.spark)
    return call("neg", arg, pg=arg.pg, spark=arg.spark)


def _bind_abs(binder: Binder, node: exp.Expr) -> Expr:
    arg = _number(binder, node, "abs")
    return call("abs", arg, pg=binder.type_of(node), spark=arg.spark)


def _bind_sign(binder: Binder, node: exp.Expr) -> Expr:
    arg = _number(binder, node, "sign")
    pg = binder.type_of(node)
    return call("sign", arg, pg=pg, spark="double" if kind(pg) == "float" else "decimal(1,0)")


def _bind_whole(binder: Binder, node: exp.Expr) -> Expr:
    """floor and ceil."""
    if node.args.get("decimals") is not None or node.args.get("to") is not None:
        raise UnsupportedQuery("floor and ceil with a scale are not supported", hint="Use round(x, n).")
    op = "floor" if isinstance(node, exp.Floor) else "ceil"
    arg = _number(binder, node, op)
    pg = binder.type_of(node)
    if kind(pg) == "float":
        return call(op, convert(arg, pg, "double"), pg=pg, spark="double")
    precision, scale = decimals.decimal_of(arg.spark)
    whole = decimals.name(decimals.bounded(precision - scale + 1, 0))
    if kind(arg.pg) == "int" or scale == 0:
        return convert(arg, NUMERIC, whole)
    return call(op, arg, pg=pg, spark=whole)


def _bind_round(binder: Binder, node: exp.Expr) -> Expr:
    arg, pg = _number(binder, node, "round"), binder.type_of(node)
    digits = node.args.get("decimals")
    if kind(pg) == "float":
        return call("rint", convert(arg, pg, "double"), pg=pg, spark="double")
    places = 0
    if digits is not None:
        count = binder.bind(digits)
        if not isinstance(count, Lit) or count.value is None or not count.value.isdigit():
            raise UnsupportedQuery("round() needs a constant, non-negative number of places", hint="Write round(x, 2).")
        places = int(count.value)
    precision, scale = decimals.decimal_of(arg.spark)
    if places >= scale:
        return convert(arg, NUMERIC, decimals.name((precision, scale)))
    shape = decimals.bounded(precision - scale + places + 1, places)
    return call("round", arg, pg=NUMERIC, spark=decimals.name(shape), detail=str(places))


def _number(binder: Binder, node: exp.Expr, what: str) -> Expr:
    arg = binder.bind(node.this)
    if kind(arg.pg) not in _NUMBERS:
        raise refuse_types(what, (arg,))
    return arg


def _spark_div(e: Call, a: Sql, b: Sql) -> Sql:
    if kind(e.pg) == "int":
        return cast(binary("DIV", a, b), e.spark)  # Spark's div gives bigint
    return binary("/", a, b)


def _spark_whole(e: Call, a: Sql) -> Sql:
    name = e.op.upper()
    if kind(e.pg) != "float":
        return fn(name, a)
    # Spark's floor of a double is a bigint, which cannot hold infinity, NaN or 2^63; all of those are whole already.
    small = binary("<", fn("ABS", a), cast(number("4503599627370496"), "double"))
    return fn("IF", small, cast(fn(name, a.copy()), "double"), a.copy())


def _spark_sign(e: Call, a: Sql) -> Sql:
    found = cast(fn("SIGN", a), e.spark)
    # PostgreSQL's sign of NaN is 0.
    return fn("IF", fn("ISNAN", a.copy()), cast(number("0"), "double"), found) if kind(e.pg) == "float" else found


BIND: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_OPS, _bind_binary),
    exp.Neg: _bind_negative,
    exp.Abs: _bind_abs,
    exp.Sign: _bind_sign,
    exp.Floor: _bind_whole,
    exp.Ceil: _bind_whole,
    exp.Round: _bind_round,
}
_SHARED = {
    "add": lambda e, a, b: binary("+", a, b),
    "sub": lambda e, a, b: binary("-", a, b),
    "mul": lambda e, a, b: binary("*", a, b),
    "mod": lambda e, a, b: binary("%", a, b),
    "neg": lambda e, a: binary("-", number("0"), a) if kind(e.pg) != "float" else fn("NEGATIVE", a),
    "abs": lambda e, a: fn("ABS", a),
    "round": lambda e, a: fn("ROUND", a, number(e.detail)),
}
SPARK = {
    **_SHARED,
    "neg": lambda e, a: fn("NEGATIVE", a),
    "div": _spark_div,
    "floor": _spark_whole,
    "ceil": _spark_whole,
    "rint": lambda e, a: fn("RINT", a),
    "sign": _spark_sign,
    "root": lambda e, a: cast(fn("SQRT", cast(a, "double")), e.spark),
}
POSTGRES = {
    **_SHARED,
    "neg": lambda e, a: binary("*", number("-1"), a),
    "div": lambda e, a, b: binary("/", a, b),
    "floor": lambda e, a: fn("FLOOR", a),
    "ceil": lambda e, a: fn("CEIL", a),
    "rint": lambda e, a: fn("ROUND", a),
    "sign": lambda e, a: fn("SIGN", a),
    "root": lambda e, a: fn("SQRT", a),
}
