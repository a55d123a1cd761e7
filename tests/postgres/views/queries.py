"""Queries to try: a list that names every operator, and a grammar that combines them at random."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from postgres.views.maintained import relation

from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views.expr import FLOAT8, INT4, INT8, TEXT

MONEY = PgType(1700, ((8 << 16) | 2) + 4, "numeric(8,2)")
T = relation(
    "t", Column.of("id", INT4, nullable=False), Column.of("k", INT4), Column.of("n", INT8), Column.of("m", MONEY),
    Column.of("s", TEXT), Column.of("f", FLOAT8), key=["id"],
)  # fmt: skip
U = relation("u", Column.of("k", INT4), Column.of("n", INT4), Column.of("s", TEXT))
W = relation("w", Column.of("k", INT4, nullable=False), Column.of("s", TEXT), key=["k"])
TABLES = (T, U, W)

TEMPLATES = [
    "SELECT id, k + 1 AS k1, m FROM t WHERE n > 0",
    "SELECT * FROM t",
    "SELECT t.id, u.s FROM t JOIN u ON t.k = u.k",
    "SELECT t.id, u.n, w.s FROM t, u, w WHERE t.k = u.k AND u.k = w.k AND t.n >= 0",
    "SELECT a.k, b.n FROM u a JOIN u b ON a.k = b.k AND a.n < b.n",
    "SELECT t.id, w.k FROM t CROSS JOIN w",
    "SELECT t.id, u.n FROM t JOIN u ON t.k < u.n",
    "SELECT k, w.s, u.s AS us FROM w JOIN u USING (k)",
    "SELECT count(*) FROM u",
    "SELECT count(*), count(n) AS n, sum(n), avg(n), min(n), max(n) FROM t",
    "SELECT count(*) AS c, sum(m) AS m, avg(m) AS a FROM t WHERE k > 2",
    "SELECT k, count(*), sum(n) AS n, sum(m), avg(m), count(s) AS s FROM t GROUP BY k",
    "SELECT k, min(s), max(m), sum(f), avg(f), max(f) AS f FROM t GROUP BY k",
    "SELECT s, k % 2 AS odd, count(*) AS c FROM u GROUP BY 1, 2 HAVING count(*) > 1",
    "SELECT k + 1 AS g, sum(n) FROM u GROUP BY k + 1 HAVING sum(n) > 0 OR max(n) IS NULL",
    "SELECT w.s, count(*), sum(t.m), max(t.n) FROM t JOIN w ON w.k = t.k GROUP BY w.s",
    "SELECT w.s, count(*), avg(t.n) FROM t JOIN w ON w.k = t.k JOIN u ON u.k = w.k GROUP BY w.s",
    "SELECT k FROM t UNION ALL SELECT k FROM u",
    "SELECT k, n FROM t UNION ALL SELECT k, n FROM u UNION ALL SELECT k, 0 FROM w",
    "SELECT g.k, g.c, w.s FROM (SELECT k, count(*) AS c FROM t GROUP BY k) g JOIN w ON w.k = g.k",
    "SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM t GROUP BY k) g GROUP BY c",
    "SELECT max(c), sum(c) FROM (SELECT k, count(*) AS c FROM u GROUP BY k) g",
    "WITH g AS (SELECT k, sum(n) AS x FROM u GROUP BY k) SELECT a.k, b.x FROM g a JOIN g b ON a.k = b.k + 1",
    "WITH g AS (SELECT k, max(n) AS x FROM u GROUP BY k) SELECT u.k, u.n FROM u JOIN g ON g.k = u.k AND g.x = u.n",
    "WITH g AS (SELECT k FROM t WHERE n > 0) SELECT k, 1 AS w FROM g UNION ALL SELECT k, count(*) FROM g GROUP BY k",
    "SELECT sum(u.n) / count(*) AS q, sum(t.n) AS s FROM t JOIN u ON t.k = u.k",
    "SELECT k, sum(x) FROM (SELECT k, n AS x FROM u UNION ALL SELECT k, id FROM t) b GROUP BY k HAVING sum(x) <> 3",
    "SELECT g.sum, g.count FROM (SELECT k, sum(m), count(*) FROM t GROUP BY k) g WHERE g.k IS NOT NULL",
    "SELECT k, count(*) FROM (SELECT t.k FROM t JOIN u ON t.k = u.k WHERE u.n > 0) x GROUP BY k",
    "SELECT 'all' AS label, count(*) FROM t JOIN w ON t.s = w.s",
    "SELECT CASE WHEN n > 1 THEN 'big' ELSE s END AS c, count(*) FROM u GROUP BY 1",
    "SELECT k, count(DISTINCT n), sum(DISTINCT n), avg(DISTINCT n), count(*) AS c, sum(m) AS m FROM t GROUP BY k",
    "SELECT count(DISTINCT s), count(*) AS c FROM t",
    "SELECT k, count(DISTINCT n) AS n, count(DISTINCT s) AS s, max(DISTINCT m) AS m FROM t GROUP BY k",
    "SELECT k, count(DISTINCT s), sum(f), sum(DISTINCT f) AS d FROM t GROUP BY k HAVING count(DISTINCT s) > 1",
    "SELECT k, count(*) FILTER (WHERE n > 0) AS c, sum(m) FILTER (WHERE s = 'a') AS m, max(n) FILTER (WHERE n < 3) "
    "AS x, count(DISTINCT n) FILTER (WHERE s IS NOT NULL) AS d FROM t GROUP BY k",
    "SELECT s, bool_and(n > 0) AS a, bool_or(n > 0) AS o, every(n IS NULL) AS e FROM u GROUP BY s",
    "SELECT s, bit_and(n) AS a, bit_or(n) AS o, bit_xor(n) AS x, bit_xor(DISTINCT n) AS d FROM u GROUP BY s",
    "SELECT k, stddev(id), variance(m), var_pop(n) AS vp, stddev_pop(m) AS sp, var_samp(id) AS vs FROM t GROUP BY k",
    "SELECT k, stddev(f), variance(f), var_pop(f) AS vp, stddev_pop(DISTINCT f) AS sp FROM t GROUP BY k",
    "SELECT s, corr(n, k), covar_pop(n, k), covar_samp(n, k), regr_slope(n, k), regr_intercept(n, k), regr_r2(n, k), "
    "regr_count(n, k), regr_avgx(n, k), regr_avgy(n, k), regr_sxx(n, k), regr_syy(n, k), regr_sxy(n, k) FROM u "
    "GROUP BY s",
    "SELECT k, mode() WITHIN GROUP (ORDER BY s) AS m, mode() WITHIN GROUP (ORDER BY n DESC) AS d FROM u GROUP BY k",
    "SELECT k, percentile_cont(0.25) WITHIN GROUP (ORDER BY n) AS c, percentile_cont(0.5) WITHIN GROUP (ORDER BY m "
    "DESC) AS m, percentile_disc(0.7) WITHIN GROUP (ORDER BY s) AS d, percentile_disc(0) WITHIN GROUP (ORDER BY n "
    "DESC) FILTER (WHERE n > 0) AS z FROM t GROUP BY k",
    "SELECT k, string_agg(s, ',' ORDER BY n, s) AS a, string_agg(DISTINCT s, '' ORDER BY s DESC) AS d, "
    "string_agg(s, '|' ORDER BY n DESC NULLS LAST, s) FILTER (WHERE n > 0) AS f FROM u GROUP BY k",
    "SELECT k, array_agg(s ORDER BY n, s DESC) AS a, array_agg(DISTINCT n) AS d, array_agg(n ORDER BY n NULLS FIRST) "
    "FILTER (WHERE s <> '') AS f FROM u GROUP BY k",
    "SELECT k, json_agg(s ORDER BY s) AS j, jsonb_agg(m ORDER BY m, id) AS b, json_agg(DISTINCT n) AS d, "
    "json_object_agg(id, s ORDER BY id) AS o, json_agg(n > 0 ORDER BY n > 0) FILTER (WHERE n < 3) AS f FROM t "
    "GROUP BY k",
    "SELECT string_agg(s, ',' ORDER BY s), array_agg(id ORDER BY id), mode() WITHIN GROUP (ORDER BY k) FROM t",
    "SELECT t.id, w.s FROM t LEFT JOIN w ON w.k = t.k",
    "SELECT t.id, u.k, u.s FROM t LEFT JOIN u ON u.k = t.k",
    "SELECT u.n, w.k FROM u RIGHT JOIN w ON w.k = u.k AND u.n > 0",
    "SELECT t.id, u.k, u.n FROM t FULL JOIN u ON u.k = t.k",
    "SELECT k, a.n AS a, b.n AS b FROM u a FULL JOIN u b USING (k)",
    "SELECT k, t.id FROM u RIGHT JOIN t USING (k)",
    "SELECT k, t.id, w.s FROM t LEFT JOIN w USING (k) WHERE t.n > 0",
    "SELECT t.id, u.n FROM t LEFT JOIN u ON u.k = t.k AND u.n < t.n",
    "SELECT t.id, u.n FROM t LEFT JOIN u ON u.n > 0 AND t.n > 0",
    "SELECT t.id, u.n FROM t LEFT JOIN u ON true",
    "SELECT t.id, w.k FROM t LEFT JOIN w ON w.k = t.k AND t.n > 0 AND w.s <> 'a'",
    "SELECT w.k, count(u.n) AS c, count(*), sum(u.n), max(u.n) AS m FROM w LEFT JOIN u ON u.k = w.k GROUP BY w.k",
    "SELECT t.id, u.n, w.s FROM t LEFT JOIN u ON u.k = t.k LEFT JOIN w ON w.k = u.n WHERE u.s IS NULL OR w.s > 'a'",
    "SELECT t.id, coalesce(u.n, -1) AS n FROM t JOIN w ON w.k = t.k LEFT JOIN u ON u.k = w.k AND u.s = w.s",
    "SELECT w.k, x.c FROM w LEFT JOIN (SELECT k, count(*) AS c FROM u GROUP BY k) x ON x.k = w.k",
    "SELECT w.k, x.one, x.n FROM w LEFT JOIN (SELECT k, n, 1 AS one FROM u) x ON x.k = w.k WHERE x.n IS NULL",
    "SELECT a.k, b.k AS bk, c.k AS ck FROM u a LEFT JOIN u b ON a.k = b.n FULL JOIN w c ON c.k = b.k",
    "SELECT t.k, count(*), count(w.s) AS s FROM w RIGHT JOIN t ON t.k = w.k LEFT JOIN u ON u.k = t.k GROUP BY t.k",
    "SELECT a.k, b.id FROM (SELECT DISTINCT k FROM u) a LEFT JOIN t b ON b.k IS NOT DISTINCT FROM a.k",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT u.k, u.n FROM u WHERE EXISTS (SELECT * FROM w WHERE w.k = u.k AND w.s <> u.s)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.n > 0) AND t.n >= 0",
    "SELECT t.id, w.s FROM t JOIN w ON w.k = t.k WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.n <> w.k)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE n > 0)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u JOIN w ON w.k = u.k WHERE w.s = t.s)",
    "SELECT k, n FROM u WHERE k IN (SELECT k FROM t WHERE n > 0)",
    "SELECT k, n FROM u WHERE k NOT IN (SELECT k FROM t)",
    "SELECT k, n FROM u WHERE k NOT IN (SELECT k FROM w WHERE s > 'a')",
    "SELECT k, n FROM u WHERE n NOT IN (SELECT n FROM u x WHERE x.k = u.k AND x.s = 'a')",
    "SELECT k FROM w WHERE k NOT IN (SELECT id FROM t)",
    "SELECT id FROM t WHERE (k, s) IN (SELECT k, s FROM u)",
    "SELECT id FROM t WHERE (k, s) NOT IN (SELECT k, s FROM u WHERE n > 0)",
    "SELECT id FROM t WHERE k > ALL (SELECT n FROM u WHERE u.s = t.s)",
    "SELECT id FROM t WHERE NOT k >= ANY (SELECT n FROM u)",
    "SELECT id FROM t WHERE k <> ALL (SELECT n FROM u WHERE n > 0)",
    "SELECT id FROM t WHERE k < ANY (SELECT n FROM u WHERE u.s = t.s)",
    "SELECT id FROM t WHERE n > 0 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE n > 0) OR s NOT IN (SELECT s FROM w WHERE w.k = t.k)",
    "SELECT id, k IN (SELECT n FROM u) AS i, EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.s < t.s) AS e FROM t",
    "SELECT k, CASE WHEN n IN (SELECT k FROM w) THEN 'w' WHEN NOT EXISTS (SELECT 1 FROM t) THEN 'e' END AS c FROM u",
    "SELECT k, count(*) FROM u WHERE k IN (SELECT k FROM t GROUP BY k HAVING count(*) > 1) GROUP BY k",
    "SELECT id, (SELECT max(n) FROM u) AS m FROM t",
    "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k) AS c FROM t",
    "SELECT id, (SELECT sum(n) + 1 FROM u WHERE u.k = t.k AND u.s = t.s AND n > 0) AS c FROM t WHERE t.n > 0",
    "SELECT id, (SELECT s FROM w WHERE w.k = t.k) AS s, (SELECT coalesce(s, '-') FROM w WHERE k = 1) AS one FROM t",
    "SELECT id FROM t WHERE n > (SELECT avg(n) FROM t)",
    "SELECT id FROM t WHERE m >= (SELECT max(m) FROM t x WHERE x.k = t.k)",
    "SELECT k, n FROM u WHERE n < (SELECT 2 * count(*) FROM t WHERE t.k = u.k)",
    "SELECT k, sum(n) FROM u GROUP BY k HAVING sum(n) > (SELECT avg(n) FROM u)",
    "SELECT k, (SELECT max(w.s) FROM w WHERE w.k = u.k) AS s, count(*) FROM u GROUP BY k",
    "SELECT c, sum(n) FROM (SELECT (SELECT count(*) FROM w WHERE w.k = u.k) AS c, n FROM u) x GROUP BY c",
    "SELECT k, n FROM u WHERE k IN (SELECT w.k FROM w WHERE w.k > (SELECT count(*) FROM t WHERE t.k = w.k))",
    "WITH r AS (SELECT k, sum(n) AS x FROM u GROUP BY k) SELECT k, x FROM r WHERE x = (SELECT max(x) FROM r)",
    "SELECT w.k FROM w LEFT JOIN u ON u.k = w.k WHERE u.n IN (SELECT k FROM t) OR NOT EXISTS (SELECT 1 FROM t)",
    "SELECT k FROM u WHERE EXISTS (SELECT 1 FROM u WHERE u.n > 1) EXCEPT SELECT k FROM w WHERE k IN (SELECT n FROM u)",
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM t",
    "SELECT id, rank() OVER (PARTITION BY k ORDER BY n), dense_rank() OVER (PARTITION BY s ORDER BY n DESC) FROM t",
    "SELECT k, n, sum(n) OVER (PARTITION BY k) AS s, count(*) OVER (PARTITION BY k ORDER BY n) AS c FROM u",
    "SELECT k, n, avg(n) OVER w AS a, min(n) OVER w AS i, max(s) OVER w AS x FROM u WINDOW w AS (PARTITION BY k)",
    "SELECT k, n, count(*) OVER () AS c, row_number() OVER (ORDER BY k, n, s) AS r FROM u",
    "SELECT id, sum(m) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM t",
    "SELECT id, lag(n) OVER w AS g, lead(n, 2, 0) OVER w AS d, first_value(n) OVER w AS f, ntile(2) OVER w AS t "
    "FROM t WINDOW w AS (PARTITION BY k ORDER BY n NULLS FIRST, id)",
    "SELECT id, last_value(n) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS l, "
    "nth_value(n, 2) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS t FROM t",
    "SELECT k, sum(n) AS s, rank() OVER (ORDER BY sum(n) DESC) AS r, sum(sum(n)) OVER () AS t FROM u GROUP BY k",
    "SELECT x.k, x.n FROM (SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n, s) AS r FROM u) x WHERE x.r = 1",
    "SELECT w.s, u.n, sum(u.n) OVER (PARTITION BY w.s) AS t FROM u JOIN w ON w.k = u.k WHERE u.n > 0",
    "SELECT k, max(c) FROM (SELECT u.k, count(*) OVER (PARTITION BY u.k, u.s) AS c FROM u LEFT JOIN t ON t.k = u.k) x "
    "GROUP BY k",
    "SELECT k % 2 AS odd, n, sum(n) OVER (PARTITION BY k % 2 ORDER BY n) AS t FROM u WHERE k IN (SELECT k FROM w)",
    "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 3",
    "SELECT k, n, s FROM u ORDER BY n NULLS FIRST, k, s LIMIT 2 OFFSET 1",
    "SELECT id, n FROM t ORDER BY n FETCH FIRST 2 ROWS WITH TIES",
    "SELECT k, sum(n) AS x FROM u GROUP BY k ORDER BY x DESC, k LIMIT 2",
    "SELECT t.id, u.n FROM t JOIN u ON u.k = t.k ORDER BY t.id, u.n, u.s OFFSET 2",
    "SELECT DISTINCT k, n FROM u ORDER BY n, k LIMIT 3",
    "SELECT k, n FROM u UNION ALL SELECT k, n FROM t ORDER BY n DESC, k LIMIT 4",
    "SELECT DISTINCT ON (k) k, id, n FROM t ORDER BY k, n DESC, id",
    "SELECT DISTINCT ON (k + 1, s) k, s FROM t ORDER BY k + 1, s, k LIMIT 2",
    "SELECT w.k, x.id FROM w LEFT JOIN (SELECT id, k FROM t ORDER BY id LIMIT 3) x ON x.k = w.k",
    "SELECT w.k, (SELECT t.id FROM t WHERE t.k = w.k ORDER BY t.n, t.id LIMIT 1) AS first FROM w",
    "SELECT k, (SELECT id FROM t ORDER BY id DESC LIMIT 1) AS last FROM u WHERE EXISTS (SELECT 1 FROM t LIMIT 1)",
    "SELECT id, s FROM t WHERE n > 0 ORDER BY s",
    "WITH d AS (SELECT k, n FROM u) SELECT a.k, a.n FROM d a WHERE EXISTS (SELECT 1 FROM d b WHERE b.k = a.n)",
    "WITH d AS (SELECT k, n FROM u) SELECT a.k, a.n FROM d a WHERE a.k NOT IN (SELECT n FROM d) OR a.n > 1",
    "WITH d AS (SELECT k, n FROM u) SELECT a.k, b.n FROM d a LEFT JOIN d b ON b.k = a.n",
    "WITH d AS (SELECT k, count(*) AS c FROM u GROUP BY k) SELECT a.k, (SELECT max(c) FROM d b WHERE b.c < 9 AND "
    "b.k = a.k) AS m FROM d a WHERE a.k IN (SELECT k FROM d) ORDER BY a.c, a.k LIMIT 2",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND (u.n > t.k OR u.s IN (SELECT s FROM w)))",
    "SELECT t.id, v.name FROM t JOIN (VALUES (0, 'none'), (1, 'one'), (NULL, NULL)) v(k, name) ON v.k = t.k",
    "WITH v(k, w) AS (VALUES (1, 2.5), (2, 3)) SELECT k, w, count(u.n) AS c FROM v LEFT JOIN u USING (k) GROUP BY 1, 2",
    "SELECT k, s FROM u WHERE n > 0 UNION ALL SELECT 7, 'x' UNION ALL VALUES (8, NULL)",
    "SELECT k FROM u EXCEPT VALUES (1), (NULL)",
    "SELECT k, id, w.s AS x, n FROM w NATURAL JOIN t",
    "SELECT k, n, id FROM u NATURAL LEFT JOIN t",
    "SELECT t.id, l.n, l.s FROM t, LATERAL (SELECT u.n, u.s FROM u WHERE u.k = t.k AND u.n >= 0) l",
    "SELECT w.k, l.c, l.m FROM w CROSS JOIN LATERAL (SELECT count(*) AS c, max(n) AS m FROM u WHERE u.k = w.k) l",
    "SELECT w.k, l.id FROM w LEFT JOIN LATERAL (SELECT id FROM t WHERE t.k = w.k ORDER BY n, id LIMIT 2) l ON true",
    "SELECT t.id, l.twice, l.twice + 1 AS more FROM t, LATERAL (SELECT t.n * 2 AS twice) l WHERE l.twice > 0",
    "SELECT a.k, l.d FROM u a JOIN LATERAL (SELECT a.n - b.n AS d FROM u b WHERE b.k = a.k AND b.n < a.n) l ON l.d > 0",
    "SELECT DISTINCT k, s FROM u",
    "SELECT DISTINCT id, k FROM t",
    "SELECT DISTINCT u.k, w.s FROM u JOIN w ON w.k = u.k WHERE u.n > 0",
    "SELECT DISTINCT count(*) AS c, s FROM u GROUP BY s, k",
    "SELECT count(*), sum(k) FROM (SELECT DISTINCT k, n FROM u) d",
    "SELECT d.k, t.id FROM (SELECT DISTINCT k FROM u) d JOIN t ON t.k = d.k",
    "SELECT k, n FROM t UNION SELECT k, n FROM u",
    "SELECT k FROM t UNION SELECT k FROM u UNION ALL SELECT k FROM w",
    "SELECT k, s FROM t INTERSECT SELECT k, s FROM u",
    "SELECT k, s FROM t INTERSECT ALL SELECT k, s FROM u",
    "SELECT k, s FROM t EXCEPT SELECT k, s FROM u",
    "SELECT k, s FROM u EXCEPT ALL SELECT k, s FROM t",
    "SELECT k, n FROM u EXCEPT ALL SELECT k, 1 FROM w UNION ALL SELECT k, k FROM w",
    "SELECT x.k, count(*), sum(x.n), max(x.n) FROM (SELECT k, n FROM u EXCEPT ALL SELECT k, n FROM t) x GROUP BY x.k",
    "SELECT k, string_agg(s, ',' ORDER BY s) AS a FROM (SELECT k, s FROM u EXCEPT ALL SELECT k, s FROM t) x GROUP BY 1",
    "SELECT w.k, count(DISTINCT u.n), array_agg(u.n ORDER BY u.n) AS a FROM w LEFT JOIN u ON u.k = w.k GROUP BY w.k",
    "SELECT id, (SELECT string_agg(s, '' ORDER BY s) FROM u WHERE u.k = t.k) AS a, "
    "(SELECT count(DISTINCT n) FROM u WHERE u.k = t.k) AS d FROM t",
    "SELECT x.k, u.s FROM (SELECT k FROM u INTERSECT ALL SELECT k FROM t) x JOIN u ON u.k = x.k WHERE x.k > 0",
    "SELECT k FROM t WHERE n > 0 EXCEPT (SELECT k FROM u INTERSECT SELECT k FROM w)",
    "WITH d AS (SELECT DISTINCT k FROM u) SELECT a.k FROM d a JOIN d b ON a.k = b.k + 1 UNION SELECT k FROM d",
]  # fmt: skip


class Grammar:
    """Random queries; every column has a kind: i(nteger), m(oney), s(tring), f(loat)."""

    _KINDS: ClassVar = {"t": {"id": "i", "k": "i", "n": "i", "m": "m", "s": "s", "f": "f"},
              "u": {"k": "i", "n": "i", "s": "s"}, "w": {"k": "i", "s": "s"}}  # fmt: skip

    def __init__(self, random: Random) -> None:
        self.random = random
        self.aliases = 0

    def query(self, depth: int = 2) -> str:
        return self.select(depth)[0]

    def select(self, depth: int) -> tuple[str, dict[str, str]]:
        if depth and self.random.random() < 0.15:
            return self._union(depth - 1)
        sources = [self._source(depth) for _ in range(self.random.choice([1, 1, 2, 2, 3]))]
        columns = {f"{alias}.{c}": kind for _, alias, given in sources for c, kind in given.items()}
        text = sources[0][0]
        seen = {c: k for c, k in columns.items() if c.startswith(f"{sources[0][1]}.")}
        for source, alias, given in sources[1:]:
            mine = {f"{alias}.{c}": k for c, k in given.items()}
            text += f" JOIN {source} ON {self._tie(seen, mine)}"
            seen |= mine
        where = f" WHERE {self._condition(columns)}" if self.random.random() < 0.5 else ""
        if self.random.random() < 0.5:
            return self._grouped(columns, f"FROM {text}{where}")
        items = [self._scalar(columns) for _ in range(self.random.randint(1, 3))]
        named = {f"c{i}": kind for i, (_, kind) in enumerate(items)}
        listed = ", ".join(f"{e} AS c{i}" for i, (e, _) in enumerate(items))
        return f"SELECT {listed} FROM {text}{where}", named

    def _source(self, depth: int) -> tuple[str, str, dict[str, str]]:
        self.aliases += 1
        alias = f"x{self.aliases}"
        if depth and self.random.random() < 0.3:
            inner, given = self.select(depth - 1)
            return f"({inner}) AS {alias}", alias, given
        table = self.random.choice(list(self._KINDS))
        return f"{table} AS {alias}", alias, self._KINDS[table]

    def _tie(self, seen: dict[str, str], mine: dict[str, str]) -> str:
        pairs = [(a, b) for a, ka in seen.items() for b, kb in mine.items() if ka == kb and ka in "is"]
        if not pairs or self.random.random() < 0.1:
            return "true"
        a, b = self.random.choice(pairs)
        return f"{a} {self.random.choice(['=', '=', '=', '=', '<', 'IS NOT DISTINCT FROM'])} {b}"

    def _condition(self, columns: dict[str, str]) -> str:
        e, kind = self._scalar(columns)
        simple = {
            "i": f"{e} {self.random.choice(['>', '<', '=', '<>'])} {self.random.randint(-1, 3)}",
            "m": f"{e} > {self.random.choice(['0', '1.50', '-0.01'])}",
            "s": f"{e} {self.random.choice(['<', '>=', '='])} 'b'",
            "f": f"{e} < 1.5",
            "q": f"{e} < 1.5",
        }[kind]
        choice = self.random.random()
        if choice < 0.2:
            return f"{e} IS NOT NULL"
        return f"({simple} OR {self._condition(columns)})" if choice < 0.35 else simple

    def _scalar(self, columns: dict[str, str]) -> tuple[str, str]:
        name = self.random.choice(sorted(columns))
        kind, choice = columns[name], self.random.random()
        if choice < 0.7:
            return name, kind
        return {
            "i": (f"({name} + {self.random.randint(-2, 2)})", "i"),
            "m": (f"({name} * 2 - 1.5)", "m"),
            "s": (f"coalesce({name}, 'none')", "s"),
            "f": (f"({name} / 2)", "f"),
            "q": (f"({name} + 1)", "q"),
        }[kind]

    def _grouped(self, columns: dict[str, str], rest: str) -> tuple[str, dict[str, str]]:
        keys = [self._scalar(columns) for _ in range(self.random.choice([0, 1, 1, 2]))]
        keys = [(e, k) for e, k in keys if k not in "fq"]
        calls = [self._aggregate(columns) for _ in range(self.random.randint(1, 3))]
        items = [*keys, *calls]
        listed = ", ".join(f"{e} AS c{i}" for i, (e, _) in enumerate(items))
        group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        having = f" HAVING count(*) > {self.random.randint(0, 2)}" if self.random.random() < 0.2 else ""
        return f"SELECT {listed} {rest}{group}{having}", {f"c{i}": k for i, (_, k) in enumerate(items)}

    def _aggregate(self, columns: dict[str, str]) -> tuple[str, str]:
        e, kind = self._scalar(columns)
        how = self.random.choice(["count", "sum", "avg", "min", "max"])
        if how == "count" or (kind == "s" and how in ("sum", "avg")):
            return self.random.choice([("count(*)", "i"), (f"count({e})", "i")])
        if how == "avg":
            return f"avg({e})", "q" if kind in "imq" else "f"
        return f"{how}({e})", "i" if kind == "i" else kind

    def _union(self, depth: int) -> tuple[str, dict[str, str]]:
        text, given = self.select(depth)
        other = self.random.choice(list(self._KINDS))
        fill = {"i": "k", "s": "s"}
        missing = {"m": "1.25", "f": "0.5::float8", "q": "0.5"}
        cells = ", ".join(fill.get(k) or missing[k] for k in given.values())
        return f"({text}) UNION ALL SELECT {cells} FROM {other}", given
