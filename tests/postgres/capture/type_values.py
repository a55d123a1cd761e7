"""Values of every type as PostgreSQL's input text, and what was decoded as text that PostgreSQL can read back."""

from __future__ import annotations

import datetime as dt
import decimal
import ipaddress
from typing import Any

from hypothesis import strategies as st
from servers import server_version

Texts = st.SearchStrategy[str]

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'très', 'a,"b');
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN price AS numeric(10,2);
CREATE DOMAIN dear AS price CHECK (value > -100000);
CREATE DOMAIN tags AS text[];
CREATE TYPE pair AS (a int, b text);
"""

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
hostile = st.text('{}",\\ NUL\n\tnull', max_size=6)
integers = st.integers(-(2**31), 2**31 - 1)
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def digits(whole: int, scale: int) -> Texts:
    limit = 10 ** (whole + scale) - 1
    context = decimal.Context(prec=2000)
    return st.integers(-limit, limit).map(lambda n: format(decimal.Decimal(n).scaleb(-scale, context), "f"))


def clock(micros: int) -> str:
    """Hours may be many."""
    sign, seconds = "-" if micros < 0 else "", abs(micros) // 1_000_000
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{abs(micros) % 1_000_000:06}"


def literal(value: Any) -> str | None:
    """A decoded value as text that PostgreSQL reads as the same value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, float):
        return repr(value).replace("inf", "Infinity")
    if isinstance(value, dict):
        return _struct(value)
    if isinstance(value, list):
        return "{" + ",".join("NULL" if one is None else _quoted(str(literal(one))) for one in value) + "}"
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _struct(value: dict[str, Any]) -> str:
    if "x" in value:
        return f"({literal(value['x'])},{literal(value['y'])})"
    extremes = {(2**31 - 1, 2**63 - 1): "infinity", (-(2**31), -(2**63)): "-infinity"}
    infinite = extremes.get((value["months"], value["microseconds"]))
    return infinite or f"{value['months']} mons {value['days']} days {clock(value['microseconds'])}"


def array(elements: Texts) -> Texts:
    return st.lists(st.none() | elements, max_size=5).map(lambda values: literal(values) or "")


def floats(width: int) -> Texts:
    return st.floats(width=width).map(lambda value: repr(value).replace("inf", "Infinity"))  # type: ignore[call-overload]


def calendar(first: int, last: int) -> Texts:
    """Days of years from BC (negative) to far ahead, and the infinities."""
    years = st.integers(first, last).filter(bool)
    days = st.tuples(years, st.integers(1, 12), st.integers(1, 28))
    spelled = days.map(lambda d: f"{abs(d[0]):04}-{d[1]:02}-{d[2]:02}{' BC' if d[0] < 0 else ''}")
    return spelled | st.sampled_from(["infinity", "-infinity", "0001-01-01", "9999-12-31", "2000-02-29"])


def moments(zone: str) -> Texts:
    def with_clock(pair: tuple[str, int]) -> str:
        day, bc, _ = pair[0].partition(" BC")
        return day if "infinity" in day else f"{day} {clock(pair[1])}{zone}{bc}"

    return st.tuples(calendar(-4712, 294275), st.integers(0, 86_399_999_999)).map(with_clock)


zones = st.integers(-57599, 57599).map(
    lambda s: f"{'-' if s < 0 else '+'}{abs(s) // 3600:02}:{abs(s) // 60 % 60:02}:{abs(s) % 60:02}"
)
times = (st.integers(0, 86_399_999_999) | st.just(86_400_000_000)).map(clock)
parts6 = st.lists(st.sampled_from([0, 0, 0, 1, 0xFFFF]) | st.integers(0, 0xFFFF), min_size=8, max_size=8)
ipv6 = parts6.map(lambda words: ":".join(f"{word:x}" for word in words))
ipv4 = st.ip_addresses(v=4).map(str)
inet = st.one_of(
    st.tuples(ipv4, st.integers(0, 32)).map(lambda p: f"{p[0]}/{p[1]}"),
    st.tuples(ipv6, st.integers(0, 128)).map(lambda p: f"{p[0]}/{p[1]}"),
    ipv6,
)
cidr = inet.map(lambda text: str(ipaddress.ip_network(text, strict=False).exploded))
interval = st.tuples(st.integers(-100_000, 100_000), st.integers(-(10**6), 10**6), st.integers(-(10**16), 10**16)).map(
    lambda p: f"{p[0]} mons {p[1]} days {clock(p[2])}"
) | st.sampled_from(
    ["0", "1 year", "1 day", "-1 mon", "-1 year -1 mon +3 days -00:00:00.000001", "2147483647 days"]
    + (["infinity", "-infinity"] if server_version() >= 17 else [])
)
point = st.tuples(floats(64), floats(64)).map(lambda p: f"({p[0]},{p[1]})")
timestamps = st.datetimes(FIRST, LAST).map(str)
naive = timestamps
aware = timestamps.map(lambda text: f"{text}+00")
wide = st.one_of(
    digits(60, 0),
    digits(0, 60),
    digits(30, 30),
    st.sampled_from(["NaN", "0", "0.000", "-1.50", *(["Infinity", "-Infinity"] if server_version() >= 14 else [])]),
)

# name: (type, values). The form is what docs/types.md says; a name that begins with text_ has its text form.
BINARY: dict[str, tuple[str, Texts]] = {
    "boolean": ("bool", st.sampled_from("tf")),
    "small": ("int2", st.integers(-(2**15), 2**15 - 1).map(str)),
    "number": ("int4", integers.map(str)),
    "big": ("int8", st.integers(-(2**63), 2**63 - 1).map(str)),
    "real": ("float4", floats(32)),
    "double": ("float8", floats(64)),
    "any_numeric": ("numeric", digits(20, 18) | digits(3, 2)),
    "declared": ("numeric(12,4)", digits(8, 4)),
    "bytes": ("bytea", st.binary(max_size=20).map(lambda b: "\\x" + b.hex())),
    "day": ("date", st.dates().map(str)),
    "naive": ("timestamp", naive),
    "aware": ("timestamptz", aware),
    "words": ("text", words),
    "padded": ("char(5)", st.text("ab c", max_size=5)),
    "enum": ("mood", st.sampled_from(["sad", "ok", "très", 'a,"b'])),
    "uuid": ("uuid", st.uuids().map(str)),
    "jsonb": ("jsonb", st.sampled_from(['{"b": 1.10, "a": [null, "ü"]}', "7", '"x"'])),
    "clock": ("time", times),
    "zoned": ("timetz", st.tuples(times, zones).map("".join)),
    "address": ("inet", inet),
    "network": ("cidr", cidr),
    "mac": ("macaddr", st.binary(min_size=6, max_size=6).map(lambda b: b.hex())),
    "mac8": ("macaddr8", st.binary(min_size=8, max_size=8).map(lambda b: b.hex())),
    "money": ("money", st.integers(-(2**63) // 10, 2**63 // 10).map(lambda n: f"{n // 100}.{n % 100:02}")),
    "bits": ("varbit", st.text("01", max_size=20)),
    "five": ("bit(5)", st.text("01", min_size=5, max_size=5)),
    "xid": ("xid", st.integers(0, 2**32 - 1).map(str)),
    "positive": ("positive", st.integers(1, 2**31 - 1).map(str)),
    "dear": ("dear", digits(4, 2)),
    "span": ("interval", interval),
    "place": ("point", point),
    "numbers": ("int4[]", array(integers.map(str))),
    "texts": ("text[]", array(words | hostile)),
    "decimals": ("numeric(10,2)[]", array(digits(8, 2))),
    "numerics": ("numeric[]", array(digits(20, 18))),
    "flags": ("bool[]", array(st.sampled_from("tf"))),
    "doubles": ("float8[]", array(floats(64))),
    "blobs": ("bytea[]", array(st.binary(max_size=5).map(lambda b: "\\x" + b.hex()))),
    "moments": ("timestamptz[]", array(aware)),
    "days": ("date[]", array(st.dates().map(str))),
    "uuids": ("uuid[]", array(st.uuids().map(str))),
    "moods": ("mood[]", array(st.sampled_from(["sad", "très", 'a,"b']))),
    "spans": ("interval[]", array(interval)),
    "places": ("point[]", array(point)),
    "short": ("varchar(5)[]", array(st.text("ab {", max_size=5))),
    "tagged": ("tags", array(words)),
    "several": ("positive[]", array(st.integers(1, 99).map(str))),
    "text_numeric": ("numeric", wide),
    "text_day": ("date", calendar(-4712, 5874896)),
    "text_naive": ("timestamp", moments("")),
    "text_aware": ("timestamptz", moments("+00")),
}  # fmt: skip

# Their binary form is not read: one of these and the whole WAL comes as text.
TEXTUAL: dict[str, tuple[str, Texts]] = {
    "text_array": ("int[]", st.sampled_from(["{{1,2},{3,NULL}}", "[0:1]={1,2}", "{}", "{1}"])),
    "text_span": ("interval", interval),
    "letter": ('"char"', st.sampled_from(["x", "", "\\377"])),
    "pair": ("pair", st.sampled_from(['(1,"a b")', "(,)", '(-2,"q""q")'])),
    "pairs": ("pair[]", st.sampled_from(['{"(1,\\"a b\\")",NULL}', "{}"])),
    "range": ("int4range", st.sampled_from(["[1,5)", "empty", "(,3)"])),
    "amounts": ("numrange", st.sampled_from(["[1.0,2.50)", "(,)"])),
    "ranges": ("int4multirange", st.sampled_from(["{[1,3),[5,9)}", "{}"])),
    "vector": ("tsvector", st.sampled_from(["'a':1A,3 'b''c'", ""])),
    "query": ("tsquery", st.sampled_from(["'a' & !'b':*A", "'x' <2> 'y'"])),
    "boxes": ("box[]", st.sampled_from(["{(2,2),(1,1);(4,4),(3,3)}", "{}"])),
    "circle": ("circle", st.sampled_from(["<(1,2),3.5>"])),
    "line": ("line", st.sampled_from(["{1,2,3}"])),
    "json": ("json", st.sampled_from(['{"a" :  1, "a": 2}', "null"])),
    "lsn": ("pg_lsn", st.sampled_from(["16/B374D848", "0/0"])),
    "class": ("regclass", st.sampled_from(["pg_class"])),
    "vector2": ("int2vector", st.sampled_from(["1 2 3", ""])),
    "path": ("jsonpath", st.sampled_from(['$."a"[*]?(@ > 1)'])),
}  # fmt: skip


for name, since in {"ranges": 14, "path": 12}.items():
    if server_version() < since:
        del TEXTUAL[name]


def forms_of(columns: dict[str, tuple[str, Texts]]) -> dict[str, str]:
    """The text form for those that are named for it."""
    return {f"public.t.{name}": "text" for name in columns if name.startswith("text_")}
