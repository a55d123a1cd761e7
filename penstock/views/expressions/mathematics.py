"""Roots, powers and logarithms of floats, truncation, bits of integers. What PostgreSQL refuses, Spark is made to."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import spark_type
from penstock.views import decimals
from penstock.views.expr import FLOAT8, NUMERIC, Call, Expr, Lit, call, kind
from penstock.views.expressions.binder import Binder, Handler, refuse_types
from penstock.views.expressions.convert import convert
from penstock.views.expressions.sql import Sql, binary, case, cast, chain, fn, negation, number, string

_COMPLEX = "a negative number raised to a non-integer power yields a complex result"
_FLOATS: dict[type[exp.Expr], str] = {
    exp.Sqrt: "sqrt", exp.Exp: "exp", exp.Ln: "ln", exp.Cbrt: "cbrt", exp.Sin: "sin", exp.Cos: "cos", exp.Tan: "tan",
    exp.Asin: "asin", exp.Acos: "acos", exp.Atan: "atan", exp.Radians: "radians", exp.Degrees: "degrees",
}  # fmt: skip
_BITS: dict[type[exp.Expr], str] = {exp.BitwiseAnd: "bit_and", exp.BitwiseOr: "bit_or", exp.BitwiseXor: "bit_xor"}
_SHIFTS: dict[type[exp.Expr], str] = {exp.BitwiseLeftShift: "shift_left", exp.BitwiseRightShift: "shift_right"}


def _float(binder: Binder, node: exp.Expr, arg: exp.Expr, what: str) -> Expr:
    """An argument of a function that PostgreSQL computes in double precision."""
    bound = binder.bind(arg)
    if kind(bound.pg) not in ("int", "float", "numeric"):
        raise refuse_types(what, (bound,))
    if kind(binder.type_of(node)) != "float":
        raise UnsupportedQuery(
            f"{what} of numeric is not supported in a view", hint="Cast its argument to double precision."
        )
    return convert(bound, FLOAT8, "double")


def _bind_float(binder: Binder, node: exp.Expr) -> Expr:
    what = _FLOATS[type(node)]
    return call(what, _float(binder, node, node.this, what), pg=FLOAT8)


def _bind_atan2(binder: Binder, node: exp.Expr) -> Expr:
    return call("atan2", *(_float(binder, node, arg, "atan2") for arg in (node.this, node.expression)), pg=FLOAT8)


def _bind_log(binder: Binder, node: exp.Expr) -> Expr:
    if node.args.get("expression") is not None:
        raise UnsupportedQuery("log() of a given base is not supported in a view", hint="Write ln(x) / ln(b).")
    return call("log10", _float(binder, node, node.this, "log"), pg=FLOAT8)


def _bind_power(binder: Binder, node: exp.Expr) -> Expr:
    args = [_float(binder, node, arg, "power") for arg in (node.this, node.expression)]
    return call("power", *args, pg=FLOAT8)


def _bind_trunc(binder: Binder, node: exp.Expr) -> Expr:
    arg, pg, digits = binder.bind(node.this), binder.type_of(node), node.args.get("decimals")
    if kind(arg.pg) not in ("int", "float", "numeric"):
        raise refuse_types("trunc", (arg,))
    if kind(pg) == "float":
        return call("trunc_float", convert(arg, pg, "double"), pg=pg, spark="double")
    count = binder.bind(digits) if digits is not None else Lit("0", NUMERIC, "int")
    if not isinstance(count, Lit) or count.value is None or not count.value.isdigit():
        raise UnsupportedQuery("trunc() needs a constant, non-negative number of places", hint="Write trunc(x, 2).")
    places = int(count.value)
    precision, scale = decimals.decimal_of(arg.spark)
    wide = convert(arg, NUMERIC, decimals.name((precision, scale)))
    if places >= scale:
        return wide
    shape = decimals.bounded(precision - scale + places, places)
    return call("trunc", wide, pg=NUMERIC, spark=decimals.name(shape), detail=str(places))


def _bind_bits(binder: Binder, node: exp.Expr) -> Expr:
    pg = binder.type_of(node)
    args = [binder.bind(arg) for arg in (node.this, node.expression)]
    if any(kind(arg.pg) != "int" for arg in args):
        raise refuse_types("bits", args)
    spark = spark_type(pg.arrow)
    return call(_BITS[type(node)], *(convert(arg, pg, spark) for arg in args), pg=pg, spark=spark)


def _bind_shift(binder: Binder, node: exp.Expr) -> Expr:
    value, by = (binder.bind(arg) for arg in (node.this, node.expression))
    if value.spark not in ("int", "bigint") or not (
        isinstance(by, Lit) and by.value is not None and int(by.value) < 32
    ):
        raise refuse_types("<< or >> (of integer or bigint, by a constant below 32)", (value, by))
    return call(_SHIFTS[type(node)], value, pg=value.pg, spark=value.spark, detail=by.value)


def _bind_complement(binder: Binder, node: exp.Expr) -> Expr:
    arg = binder.bind(node.this)
    if kind(arg.pg) != "int":
        raise refuse_types("~", (arg,))
    return call("bit_not", arg, pg=arg.pg, spark=arg.spark)


def _refused_if(condition: Sql, message: str, value: Sql) -> Sql:
    return case((condition, fn("RAISE_ERROR", string(message))), default=value)


def _spark_root(e: Call, a: Sql) -> Sql:
    negative = binary("<", a.copy(), number("0"))
    return _refused_if(negative, "cannot take square root of a negative number", fn("SQRT", a))


def _spark_log(name: str) -> Handler:
    def render(e: Call, a: Sql) -> Sql:
        outside = binary("<=", a.copy(), number("0"))
        return _refused_if(outside, "cannot take logarithm of zero or a negative number", fn(name, a))

    return render  # type: ignore[return-value]


def _spark_bounded(name: str) -> Callable[[Call, Sql], Sql]:
    """sin of infinity and asin of 2 are errors, as in PostgreSQL."""

    def render(e: Call, a: Sql) -> Sql:
        size, one = fn("ABS", a.copy()), cast(number("1"), "double")
        infinite = binary("=", size, cast(string("Infinity"), "double"))
        outside = chain("AND", binary(">", size.copy(), one), negation(fn("ISNAN", a.copy())))
        return _refused_if(outside if name in ("ASIN", "ACOS") else infinite, "input is out of range", fn(name, a))

    return render


def _spark_power(e: Call, a: Sql, b: Sql) -> Sql:
    zero = chain("AND", binary("=", a.copy(), number("0")), binary("<", b.copy(), number("0")))
    infinite = binary("=", fn("ABS", b.copy()), cast(string("Infinity"), "double"))
    whole = chain("OR", infinite, binary("=", fn("RINT", b.copy()), b.copy()))
    complex_ = chain("AND", binary("<", a.copy(), number("0")), negation(whole))
    one = chain("OR", binary("=", a.copy(), number("1")),
                chain("AND", binary("=", a.copy(), number("-1")), infinite.copy()))  # fmt: skip
    return case(
        (zero, fn("RAISE_ERROR", string("zero raised to a negative power is undefined"))),
        (
            complex_,
            fn("RAISE_ERROR", string(_COMPLEX)),
        ),
        (one, case((binary("=", b.copy(), b.copy()), cast(number("1"), "double")), default=None)),
        default=fn("POWER", a, b),
    )


def _spark_trunc_float(e: Call, a: Sql) -> Sql:
    # floor and ceil of a double are bigints in Spark; what is larger is whole already.
    small = binary("<", fn("ABS", a), cast(number("4503599627370496"), "double"))
    cut = case((binary("<", a.copy(), number("0")), fn("CEIL", a.copy())), default=fn("FLOOR", a.copy()))
    return fn("IF", small, cast(cut, "double"), a.copy())


def _spark_trunc(e: Call, a: Sql) -> Sql:
    unit = "1" if e.detail == "0" else f"0.{'0' * (int(e.detail) - 1)}1"
    rest = binary("%", a.copy(), cast(string(unit), f"decimal({int(e.detail) + 1},{e.detail})"))
    return cast(binary("-", a, rest), e.spark)


def _xor_postgres(e: Call, a: Sql, b: Sql) -> Sql:
    return exp.Paren(this=exp.BitwiseXor(this=a, expression=b))


def _plainly(name: str) -> Callable[..., Sql]:
    return lambda e, *args: fn(name, *args)


BIND: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_FLOATS, _bind_float),
    **dict.fromkeys(_BITS, _bind_bits),
    exp.BitwiseNot: _bind_complement,
    **dict.fromkeys(_SHIFTS, _bind_shift),
    exp.Pi: lambda binder, node: call("pi", pg=FLOAT8),
    exp.Atan2: _bind_atan2,
    exp.Log: _bind_log,
    exp.Pow: _bind_power,
    exp.Trunc: _bind_trunc,
}
_SHARED = {
    "bit_and": lambda e, a, b: exp.Paren(this=exp.BitwiseAnd(this=a, expression=b)),
    "bit_or": lambda e, a, b: exp.Paren(this=exp.BitwiseOr(this=a, expression=b)),
    "bit_xor": _xor_postgres,
    "bit_not": lambda e, a: exp.Paren(this=exp.BitwiseNot(this=a)),
    "pi": lambda e: fn("PI"),
    **{name: _plainly(name.upper()) for name in ("atan", "atan2", "radians", "degrees")},
}
SPARK = {
    **_SHARED,
    **{name: _spark_bounded(name.upper()) for name in ("sin", "cos", "tan", "asin", "acos")},
    "shift_left": lambda e, a: fn("SHIFTLEFT", a, number(e.detail)),
    "shift_right": lambda e, a: fn("SHIFTRIGHT", a, number(e.detail)),
    "sqrt": _spark_root,
    "cbrt": lambda e, a: fn("CBRT", a),
    "exp": lambda e, a: fn("EXP", a),
    "ln": _spark_log("LN"),
    "log10": _spark_log("LOG10"),
    "power": _spark_power,
    "trunc_float": _spark_trunc_float,
    "trunc": _spark_trunc,
}
POSTGRES = {
    **_SHARED,
    **{name: _plainly(name.upper()) for name in ("sin", "cos", "tan", "asin", "acos")},
    "shift_left": lambda e, a: exp.Paren(this=exp.BitwiseLeftShift(this=a, expression=number(e.detail))),
    "shift_right": lambda e, a: exp.Paren(this=exp.BitwiseRightShift(this=a, expression=number(e.detail))),
    "sqrt": lambda e, a: fn("SQRT", a),
    "cbrt": lambda e, a: fn("CBRT", a),
    "exp": lambda e, a: fn("EXP", a),
    "ln": lambda e, a: fn("LN", a),
    "log10": lambda e, a: fn("LOG", a),
    "power": lambda e, a, b: fn("POWER", a, b),
    "trunc_float": lambda e, a: fn("TRUNC", a),
    "trunc": lambda e, a: fn("TRUNC", a, number(e.detail)),
}
