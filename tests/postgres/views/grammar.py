"""Random queries of every operator, nested: what a view may ask, over the tables of `queries.py`.

Columns have a kind: i(nteger), m(oney), s(tring), f(loat), q(uotient), b(oolean). Floats and quotients are given on
and compared with constants, but nothing is grouped, joined or ordered by them: engines may differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

Columns = dict[str, str]  # name → kind
TABLES: dict[str, Columns] = {
    "t": {"id": "i", "k": "i", "n": "i", "m": "m", "s": "s", "f": "f"},
    "u": {"k": "i", "n": "i", "s": "s"},
    "w": {"k": "i", "s": "s"},
}
_EXACT = "ims"
DEPTHS = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4]  # how deep queries are nested: the deep ones take most of the time

# Constructs, each with a query that needs nothing else.
FEATURES: dict[str, str] = {
    "outer join": "SELECT w.k, u.n FROM w LEFT JOIN u ON u.k = w.k",
    "full join": "SELECT w.k, u.n FROM w FULL JOIN u ON u.k = w.k",
    "exists": "SELECT k FROM w WHERE EXISTS (SELECT 1 FROM u WHERE u.k = w.k)",
    "not exists": "SELECT k FROM w WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = w.k)",
    "in": "SELECT k FROM w WHERE k IN (SELECT k FROM u)",
    "not in": "SELECT k FROM w WHERE k NOT IN (SELECT k FROM u)",
    "exists or": "SELECT k FROM w WHERE k > 1 OR EXISTS (SELECT 1 FROM u WHERE u.k = w.k)",
    "scalar in where": "SELECT k FROM w WHERE k > (SELECT min(n) FROM u)",
    "scalar in select": "SELECT k, (SELECT max(n) FROM u WHERE u.k = w.k) AS x FROM w",
    "distinct": "SELECT DISTINCT k FROM u",
    "union": "SELECT k FROM u UNION SELECT k FROM w",
    "intersect": "SELECT k FROM u INTERSECT SELECT k FROM w",
    "intersect all": "SELECT k FROM u INTERSECT ALL SELECT k FROM w",
    "except": "SELECT k FROM u EXCEPT SELECT k FROM w",
    "except all": "SELECT k FROM u EXCEPT ALL SELECT k FROM w",
    "limit": "SELECT k, n FROM u ORDER BY k, n LIMIT 3",
    "window": "SELECT k, rank() OVER (PARTITION BY s ORDER BY k) AS r FROM w",
    "lateral": "SELECT w.k, x.n FROM w CROSS JOIN LATERAL (SELECT u.n FROM u WHERE u.k = w.k) x",
    "values": "SELECT w.k, v.a FROM w JOIN (VALUES (1, 'a'), (2, NULL)) AS v (k, a) ON v.k = w.k",
    "function": "SELECT w.k, g FROM w, generate_series(1, w.k) AS g",
    "distinct on": "SELECT DISTINCT ON (k) k, n, s FROM u ORDER BY k, n, s",
}

# A query may be refused for these: numbers of too many digits, a view of constants alone, a subquery that reads jsonb
# of rows that nothing tells apart, a series of numerics (a sum of bigint is one).
REFUSALS = ("digits", "reads no table", "of a query without a key", "generate_series() on")


class Grammar:
    """One random query after another; `features` are the constructs it may use."""

    def __init__(self, random: Random, features: Collection[str] = tuple(FEATURES)) -> None:
        self.random = random
        self.features = frozenset(features)
        self._names = 0
        self._ctes: dict[str, Columns] = {}

    def query(self, depth: int = 4) -> str:
        self._names, self._ctes, listed = 0, {}, []
        while depth > 1 and len(listed) < 2 and self._chance(0.15):
            name = self._name("c")
            text, given = self.relation(depth - 2)
            listed.append(f"{name} AS ({text})")
            self._ctes[name] = given
        text, _ = self.relation(depth)
        return f"WITH {', '.join(listed)} {text}" if listed else text

    def relation(self, depth: int) -> tuple[str, Columns]:
        if depth > 0 and self._chance(0.2):
            return self._set_operation(depth - 1)
        if depth > 0 and self._chance(0.1) and "limit" in self.features:
            return self._top(depth - 1)
        return self._select(depth)

    # SELECT -----------------------------------------------------------------------------------------------------------

    def _select(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._from(depth)
        where = f" WHERE {self._condition(columns, depth)}" if self._chance(0.5) else ""
        if self._chance(0.45):
            return self._grouped(columns, f"FROM {source}{where}", depth)
        items = [self._item(columns, depth) for _ in range(self.random.randint(1, 4))]
        once = self._chance(0.15) and "distinct" in self.features and not {"f", "q"} & {kind for _, kind in items}
        return self._listed(items, f"FROM {source}{where}", "DISTINCT " if once else "")

    def _listed(self, items: list[tuple[str, str]], rest: str, once: str = "") -> tuple[str, Columns]:
        listed = ", ".join(f"{e} AS c{i}" for i, (e, _) in enumerate(items))
        return f"SELECT {once}{listed} {rest}", {f"c{i}": kind for i, (_, kind) in enumerate(items)}

    def _item(self, columns: Columns, depth: int) -> tuple[str, str]:
        choice = self.random.random()
        if choice < 0.08 and depth and "scalar in select" in self.features:
            return self._scalar_subquery(columns, depth - 1), "i"
        if choice < 0.16 and "window" in self.features:
            return self._window(columns), "i"
        return self._scalar(columns)

    def _from(self, depth: int) -> tuple[str, Columns]:
        documents = "function" in self.features and self._chance(0.08)
        text, columns = self._documents() if documents else self._source(depth)
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            other, mine = self._source(depth)
            if "outer join" in self.features and self._chance(0.1):
                inner, more = self._source(depth)
                how = self.random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
                other, mine = f"({other} {how} {inner} ON {self._tie(mine, more)})", mine | more
            how = self._join_kind()
            if how == "CROSS JOIN":
                text = f"{text} CROSS JOIN {other}"
            else:
                text = f"{text} {how} {other} ON {self._tie(columns, mine, equal=how == 'FULL JOIN')}"
            columns = columns | mine
        if "function" in self.features and self._chance(0.1):
            called, mine = self._function(columns)
            text, columns = f"{text} {called}", columns | mine
        return text, columns

    def _function(self, columns: Columns) -> tuple[str, Columns]:
        """A function over what stands left of it."""
        alias, how = self._name("f"), self.random.choice(["CROSS JOIN {}", "LEFT JOIN LATERAL {} ON true"])
        number, other = self._of_kind(columns, "i"), self._of_kind(columns, "i")
        calls = [f"generate_series(1, {number} % 3)", f"generate_series(2, {number} % 4, -1)",
                 f"unnest(ARRAY[{number}, {other}])"]  # fmt: skip
        called = f"{self.random.choice(calls)} WITH ORDINALITY AS {alias} (n, o)"
        return how.format(called), {f"{alias}.n": "i", f"{alias}.o": "i"}

    def _documents(self) -> tuple[str, Columns]:
        """Of jsonb values and arrays what can be taken out of them."""
        table, alias = self._name("x"), self._name("f")
        taken = {f"{table}.id": "i", f"({table}.j ->> 'a')": "s", f"({table}.l ->> 0)": "s",
                 f"({table}.j #>> '{{a,b,1}}')": "s", f"jsonb_typeof({table}.j -> 'b')": "s",
                 f"jsonb_array_length({table}.l)": "i", f"({table}.j ? 'a')": "b"}  # fmt: skip
        calls: dict[str, Columns] = {
            f"jsonb_each_text({table}.j) AS {alias} (k, s)": {f"{alias}.k": "s", f"{alias}.s": "s"},
            f"jsonb_object_keys({table}.j) AS {alias} (k)": {f"{alias}.k": "s"},
            f"jsonb_array_elements_text({table}.l) WITH ORDINALITY AS {alias} (s, o)": {
                f"{alias}.s": "s", f"{alias}.o": "i"},
            f"jsonb_array_elements({table}.l) AS {alias} (v)": {f"({alias}.v ->> 'a')": "s", f"({alias}.v ->> 0)": "s"},
            f"unnest({table}.a) AS {alias} (n)": {f"{alias}.n": "i"},
        }  # fmt: skip
        if self._chance(0.4):
            return f"d AS {table}", taken
        called = self.random.choice(list(calls))
        how = self.random.choice(["CROSS JOIN LATERAL {}", "LEFT JOIN LATERAL {} ON true"])
        return f"d AS {table} {how.format(called)}", {f"{table}.id": "i", **calls[called]}

    def _join_kind(self) -> str:
        kinds = ["JOIN"] * 6 + ["CROSS JOIN"]
        kinds += ["LEFT JOIN", "LEFT JOIN", "RIGHT JOIN"] if "outer join" in self.features else []
        kinds += ["FULL JOIN"] if "full join" in self.features else []
        return self.random.choice(kinds)

    def _source(self, depth: int) -> tuple[str, Columns]:
        alias = self._name("x")
        if self._ctes and self._chance(0.4):
            name = self.random.choice(list(self._ctes))
            return f"{name} AS {alias}", _of(alias, self._ctes[name])
        if depth and self._chance(0.35):
            inner, given = self.relation(depth - 1)
            return f"({inner}) AS {alias}", _of(alias, given)
        if "values" in self.features and self._chance(0.05):
            return f"(VALUES (1, 'a'), (2, NULL), (NULL, 'b'), (1, 'a')) AS {alias} (k, s)", _of(alias, TABLES["w"])
        table = self.random.choice(list(TABLES))
        return f"{table} AS {alias}", _of(alias, TABLES[table])

    def _tie(self, seen: Columns, mine: Columns, *, equal: bool = False) -> str:
        pairs = [(a, b) for a, ka in seen.items() for b, kb in mine.items() if ka == kb and ka in "is"]
        if not pairs:
            return "1 = 1"
        a, b = self.random.choice(pairs)
        signs = ["="] * 5 + ([] if equal else ["<", "IS NOT DISTINCT FROM"])
        tie = f"{a} {self.random.choice(signs)} {b}"
        if not equal and self._chance(0.15):
            return f"{tie} AND {self._simple(seen | mine)}"
        return tie

    # GROUP BY ---------------------------------------------------------------------------------------------------------

    def _grouped(self, columns: Columns, rest: str, depth: int) -> tuple[str, Columns]:
        keys = [self._scalar(columns) for _ in range(self.random.choice([0, 1, 1, 1, 2]))]
        keys = list(dict.fromkeys((e, kind) for e, kind in keys if kind in _EXACT))
        items = [*keys, *(self._aggregate(columns) for _ in range(self.random.randint(1, 3)))]
        if keys and self._chance(0.1):
            group = f" GROUP BY {self.random.choice(['ROLLUP', 'CUBE'])} ({', '.join(e for e, _ in keys)})"
        else:
            group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        having = f" HAVING count(*) > {self.random.randint(0, 2)}" if self._chance(0.2) else ""
        return self._listed(items, f"{rest}{group}{having}")

    def _aggregate(self, columns: Columns) -> tuple[str, str]:
        e, kind = self._scalar(columns)
        text, result = self._choice(self._aggregates(e, kind, columns))
        if self._chance(0.15) and not text.startswith("json"):
            text = f"{text} FILTER (WHERE {self._simple(columns)})"
        return text, result

    def _aggregates(self, e: str, kind: str, columns: Columns) -> list[tuple[str, str]]:
        found = [("count(*)", "i"), (f"count({e})", "i")]
        if kind != "b":
            found += [(f"min({e})", kind), (f"max({e})", kind)]
        if kind in "imfq":
            found += [(f"sum({e})", kind), (f"avg({e})", "f" if kind == "f" else "q")] * 2
        if kind in _EXACT:
            found += [(f"count(DISTINCT {e})", "i")]
        if kind in "im":
            found += [(f"sum(DISTINCT {e})", kind), (f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {e})", kind)]
        if kind == "s":
            found += [(f"string_agg({e}, ',' ORDER BY {e})", "s"), (f"mode() WITHIN GROUP (ORDER BY {e})", "s")]
        found += [(f"bool_or({self._simple(columns)})", "b"), (f"bool_and({self._simple(columns)})", "b")]
        return found

    # Several relations ------------------------------------------------------------------------------------------------

    def _set_operation(self, depth: int) -> tuple[str, Columns]:
        text, given = self._select(depth)
        signs = ["UNION ALL"] * 3
        if not {"f", "q"} & set(given.values()):
            signs += [sign.upper() for sign in ("union", "intersect", "except", "intersect all", "except all")
                      if sign in self.features]  # fmt: skip
        other = self._like(given, depth)
        return f"({text}) {self.random.choice(signs)} ({other})", given

    def _like(self, given: Columns, depth: int) -> str:
        """A query of the same kinds of columns."""
        source, columns = self._from(depth)
        constants = {"i": "1", "m": "1.50", "s": "'a'", "f": "0.5::float8", "q": "0.5", "b": "true"}
        cells = []
        for kind in given.values():
            fitting = sorted(name for name, own in columns.items() if own == kind)
            cells.append(self.random.choice(fitting) if fitting else constants[kind])
        where = f" WHERE {self._simple(columns)}" if self._chance(0.4) else ""
        return self._listed([(cell, "") for cell in cells], f"FROM {source}{where}")[0]

    def _top(self, depth: int) -> tuple[str, Columns]:
        """Ordered by every column, so that rows which are equal in the order are equal."""
        alias, (text, given) = self._name("x"), self._select(depth)
        if {"f", "q"} & set(given.values()):
            return text, given
        order = [
            f"{alias}.{name}{self.random.choice(['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])}" for name in given
        ]
        self.random.shuffle(order)
        more = f" OFFSET {self.random.randint(1, 2)}" if self._chance(0.3) else ""
        return (
            f"SELECT {alias}.* FROM ({text}) AS {alias} ORDER BY {', '.join(order)} "
            f"LIMIT {self.random.randint(1, 5)}{more}"
        ), given

    def _scalar_subquery(self, columns: Columns, depth: int) -> str:
        source, inner = self._from(depth)
        e = self._of_kind(inner, "i")
        tie = f" WHERE {self._tie(columns, inner, equal=self._chance(0.8))}" if self._chance(0.6) else ""
        if tie and depth and self._chance(0.1):
            tie = f"{tie} AND {self._subquery_condition(columns | inner, depth - 1)}"
        return f"(SELECT {self.random.choice(['max', 'min', 'count', 'sum'])}({e}) FROM {source}{tie})"

    def _window(self, columns: Columns) -> str:
        keys = [name for name, kind in sorted(columns.items()) if kind in _EXACT]
        if not keys:
            return "count(*) OVER ()"
        part, order = self.random.choice(keys), self.random.choice(keys)
        call = self.random.choice(["rank()", "dense_rank()", "count(*)", f"count({order})"])
        ordered = f" ORDER BY {order}" if "rank" in call or self._chance(0.5) else ""
        return f"{call} OVER (PARTITION BY {part}{ordered})"

    # Expressions ------------------------------------------------------------------------------------------------------

    def _condition(self, columns: Columns, depth: int) -> str:
        choice = self.random.random()
        if choice < 0.12:
            return f"({self._condition(columns, depth)} OR {self._condition(columns, 0)})" if (
                depth == 0 or "exists or" in self.features) else self._simple(columns)  # fmt: skip
        if choice < 0.2:
            return f"{self._condition(columns, depth)} AND {self._condition(columns, depth)}"
        if choice < 0.45 and depth:
            return self._subquery_condition(columns, depth - 1)
        return self._simple(columns)

    def _subquery_condition(self, columns: Columns, depth: int) -> str:
        made: dict[str, Callable[[], str]] = {
            "exists": lambda: f"EXISTS ({self._related(columns, depth)})",
            "not exists": lambda: f"NOT EXISTS ({self._related(columns, depth)})",
            "in": lambda: self._member(columns, depth, "IN"),
            "not in": lambda: self._member(columns, depth, "NOT IN"),
            "scalar in where": lambda: (
                f"{self._of_kind(columns, 'i')} {self._sign()} {self._scalar_subquery(columns, depth)}"
            ),
        }
        usable = sorted(set(made) & self.features)
        return made[self.random.choice(usable)]() if usable else self._simple(columns)

    def _related(self, columns: Columns, depth: int) -> str:
        source, inner = self._from(depth)
        more = f" AND {self._simple(inner)}" if self._chance(0.3) else ""
        if depth and self._chance(0.12):
            more = f"{more} AND {self._subquery_condition(columns | inner, depth - 1)}"
        return f"SELECT 1 FROM {source} WHERE {self._tie(columns, inner, equal=True)}{more}"

    def _member(self, columns: Columns, depth: int, how: str) -> str:
        source, inner = self._from(depth)
        where = f" WHERE {self._simple(inner)}" if self._chance(0.6) else ""
        return f"{self._of_kind(columns, 'i')} {how} (SELECT {self._of_kind(inner, 'i')} FROM {source}{where})"

    def _simple(self, columns: Columns) -> str:
        e, kind = self._scalar(columns)
        number = self.random.randint(-1, 3)
        forms = {
            "i": [f"{e} {self._sign()} {number}", f"{e} IN (0, {number}, NULL)", f"{e} BETWEEN 0 AND {number}",
                  f"{e} IS DISTINCT FROM {number}", f"NOT ({e} > {number})"],
            "m": [f"{e} > {self.random.choice(['0', '1.50', '-0.01'])}", f"{e} <= 9.99"],
            "s": [f"{e} {self.random.choice(['<', '>=', '='])} 'b'", f"{e} LIKE 'a%'", f"{e} NOT LIKE '%b'",
                  f"length({e}) = 1"],
            "f": [f"{e} < 0.15", f"{e} > 100"],
            "q": [f"{e} IS NOT NULL"],
            "b": [e, f"{e} IS NOT TRUE", f"NOT {e}"],
        }  # fmt: skip
        return self.random.choice([*forms[kind], f"{e} IS NULL", f"{e} IS NOT NULL"])

    def _scalar(self, columns: Columns) -> tuple[str, str]:
        name = self.random.choice(sorted(columns))
        kind = columns[name]
        if self._chance(0.7):
            return name, kind
        number = self.random.randint(-2, 2)
        forms = {
            "i": [(f"({name} + {number})", "i"), (f"coalesce({name}, {number})", "i"), (f"({name} % 2)", "i"),
                  (f"CASE WHEN {name} > 0 THEN 'pos' WHEN {name} = 0 THEN 'zero' END", "s"), (f"-{name}", "i")],
            "m": [(f"({name} * 2)", "m"), (f"({name} - 1.5)", "m"), (f"nullif({name}, 1.50)", "m")],
            "s": [(f"coalesce({name}, 'none')", "s"), (f"upper({name})", "s"), (f"({name} || '!')", "s"),
                  (f"length({name})", "i"), (f"substring({name} FROM 1 FOR 1)", "s")],
            "f": [(f"({name} / 2)", "f"), (f"coalesce({name}, 0)", "f")],
            "q": [(f"({name} + 1)", "q")],
            "b": [(f"CASE WHEN {name} THEN 1 ELSE 0 END", "i"), (f"coalesce({name}, false)", "b")],
        }  # fmt: skip
        return self._choice(forms[kind])

    def _of_kind(self, columns: Columns, kind: str) -> str:
        fitting = sorted(name for name, own in columns.items() if own == kind)
        return self.random.choice(fitting) if fitting else "1"

    def _sign(self) -> str:
        return self.random.choice(["=", "<>", "<", ">", ">="])

    def _choice(self, options: list[tuple[str, str]]) -> tuple[str, str]:
        return self.random.choice(options)

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"


def _of(alias: str, given: Columns) -> Columns:
    return {f"{alias}.{name}": kind for name, kind in given.items()}
