"""Queries to try: a list that names every operator, over four small tables."""

from __future__ import annotations

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
JSONB = PgType(3802, -1, "jsonb")
INTS = PgType(1007, -1, "integer[]", kind="b", element=INT4)
# Documents: `j` are objects, `l` arrays, or NULL.
D = relation(
    "d", Column.of("id", INT4, nullable=False), Column.of("j", JSONB), Column.of("l", JSONB), Column.of("a", INTS),
    key=["id"],
)  # fmt: skip
TABLES = (T, U, W, D)

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
    "SELECT t.id FROM t, w WHERE t.k = w.k AND t.n > 0 AND w.s = 'a' OR w.k = t.k AND t.k = w.k AND t.n IS NULL",
    "SELECT t.id, u.n FROM t JOIN u ON t.k = u.k AND t.s = 'a' OR t.k = u.k WHERE t.n > 1 AND u.n > 0 OR u.n > 0",
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
    "SELECT true AS c, 1 AS o, k FROM u INTERSECT ALL SELECT true, 1, k FROM w",
    "SELECT max(n), c FROM (SELECT 2 AS c, n FROM u) x GROUP BY c",
    "SELECT k, (SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY s ORDER BY k) AS r FROM u) x) AS m FROM w",
    "SELECT k, rank() OVER (ORDER BY (SELECT max(n) FROM u WHERE u.k = w.k), k) AS r FROM w",
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
    "SELECT k, s, count(*), sum(n), grouping(k, s) AS g, grouping(s) AS gs FROM t GROUP BY ROLLUP (k, s)",
    "SELECT k, s, max(n) FROM u GROUP BY CUBE (k, s) HAVING count(*) > 1 OR grouping(k) = 1",
    "SELECT k + 1 AS k1, s, n, count(DISTINCT n) AS c FROM u GROUP BY GROUPING SETS ((k + 1, s), (s, n), s, ()), ()",
    "SELECT t.k, w.s, sum(m) AS m FROM t JOIN w ON w.k = t.k GROUP BY t.k, ROLLUP (w.s) HAVING t.k < 2",
    "SELECT x.k, sum(x.c) FROM (SELECT k, s, count(*) AS c FROM u GROUP BY DISTINCT ROLLUP (k), CUBE (k, s)) x "
    "GROUP BY x.k",
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
    "SELECT n, count(*) AS c FROM u GROUP BY n ORDER BY c, n DESC LIMIT 3 OFFSET 2",
    "SELECT t.s, sum(u.n) AS x FROM t JOIN u ON u.k = t.k GROUP BY t.s ORDER BY x NULLS FIRST, t.s FETCH FIRST 2 ROWS "
    "WITH TIES",
    "SELECT * FROM (SELECT k, n, rank() OVER (ORDER BY n DESC NULLS LAST) AS r FROM u GROUP BY k, n) x WHERE r <= 2",
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
    "SELECT x.k FROM (SELECT x.k FROM (SELECT k FROM u WHERE n > 0) x) x JOIN (SELECT x.k FROM w x) y ON y.k = x.k",
    "WITH x AS (SELECT k FROM u) SELECT x.k FROM x WHERE x.k IN (SELECT x.k FROM (SELECT k FROM w) x) AND x.k > 0",
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

TEMPLATES += [
    "SELECT k, n FROM u WHERE k = 4 OR n > ANY (SELECT n FROM u)",
    "SELECT k, n FROM u WHERE k = 2 OR n >= ALL (SELECT k FROM w)",
    "SELECT k, n = ANY (SELECT k FROM w) AS a, n <> ALL (SELECT k FROM w) AS b, n < ALL (SELECT n FROM u) AS c FROM u",
    "SELECT k, k <= ALL (SELECT n FROM u WHERE u.k = w.k) AS c, k > ANY (SELECT n FROM u WHERE u.s <> w.s) AS d FROM w",
    "SELECT k, var_pop(DISTINCT n) AS a, stddev(DISTINCT n) AS b, sum(DISTINCT n), count(*) AS c FROM u GROUP BY k",
    "SELECT CASE WHEN n IN (SELECT k FROM w) THEN 'in' ELSE s END AS x, count(*) FROM u GROUP BY 1",
    "SELECT k < ANY (SELECT n FROM u WHERE u.k = w.k) AS x, count(*) FROM w GROUP BY 1",
    "SELECT variance(DISTINCT m) AS a, avg(m) AS b FROM t",
]

# Parentheses around outer joins, and joins after a comma.
PARENTHESES = [
    "SELECT t.id, u.n, w.s FROM t LEFT JOIN (u JOIN w ON w.k = u.k) ON u.k = t.k",
    "SELECT t.id, u.n, w.s FROM t LEFT JOIN u JOIN w ON w.k = u.k ON u.k = t.k",
    "SELECT t.id, u.n, w.s FROM (t LEFT JOIN u ON u.k = t.k) JOIN w ON w.k = u.n",
    "SELECT t.id, u.n, w.s FROM t JOIN (u LEFT JOIN w ON w.k = u.n) ON u.k = t.k AND w.s <> 'a'",
    "SELECT t.id, u.n, w.s FROM t FULL JOIN (u LEFT JOIN w ON w.k = u.n) ON u.k = t.k",
    "SELECT t.id, a.n, b.s, w.k AS wk FROM t LEFT JOIN ((u a JOIN u b ON a.k = b.n) LEFT JOIN w ON w.k = b.n) "
    "ON a.k = t.k AND coalesce(w.k, 1) = 1",
    "SELECT u.k, v.s, w.s AS x FROM u LEFT JOIN ((VALUES (1, 'a'), (2, NULL)) AS v (k, s) LEFT JOIN w ON w.k = v.k) "
    "ON v.k = u.k",
    "SELECT w.k, t.id, u.n FROM w, t RIGHT JOIN u ON u.k = t.k",
    "SELECT w.k, t.id, u.n FROM w, t FULL JOIN u ON u.k = t.k WHERE w.k < 2",
    "SELECT w.k, x.c, y.n FROM w LEFT JOIN ((SELECT k, count(*) AS c FROM t GROUP BY k) x JOIN u y ON y.k = x.k) "
    "ON x.k = w.k",
    "SELECT w.k, x.id, g FROM w LEFT JOIN (t x CROSS JOIN generate_series(1, x.k) g) ON x.k = w.k",
    "SELECT w.k, g, x.id FROM w LEFT JOIN (generate_series(1, 2) g JOIN t x ON x.k = g) ON x.k = w.k",
    "SELECT k, (SELECT count(*) FROM t LEFT JOIN (u JOIN w x ON x.k = u.k) ON u.k = t.k WHERE t.k = w.k) AS c FROM w",
]
TEMPLATES += PARENTHESES

# Subqueries that equal values of the query around them do not tie, and that read what is further out.
APART = [
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM w WHERE w.k = u.n "
    "AND w.s = t.s))",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND NOT EXISTS (SELECT 1 FROM w WHERE w.k "
    "= u.n AND w.s = t.s))",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM w WHERE w.k = u.n AND EXISTS "
    "(SELECT 1 FROM u x WHERE x.k = w.k AND x.s = t.s AND x.n >= u.n)))",
    "SELECT id FROM t WHERE k IN (SELECT u.k FROM u WHERE u.n IN (SELECT w.k FROM w WHERE w.s = t.s))",
    "SELECT id FROM t WHERE k NOT IN (SELECT u.k FROM u WHERE u.n IN (SELECT w.k FROM w WHERE w.s <> t.s))",
    "SELECT id, (SELECT count(*) FROM u WHERE u.n < t.k) AS c FROM t",
    "SELECT id, (SELECT max(u.n) + t.k FROM u WHERE u.n <= t.k) AS c, (SELECT count(*) + t.k FROM u WHERE u.n > "
    "t.k) AS d FROM t",
    "SELECT id, (SELECT sum(u.n * t.k) FROM u WHERE u.s = t.s) AS c FROM t",
    "SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM w WHERE w.k = u.n AND w.s > "
    "t.s)) AS c FROM t",
    "SELECT id, (SELECT max(x.c) FROM (SELECT u.s, count(*) AS c FROM u WHERE u.k = t.k GROUP BY u.s) x) AS c FROM t",
    "SELECT id, (SELECT avg(x.n) FROM (SELECT u.n FROM u WHERE u.k = t.k ORDER BY u.n DESC, u.s LIMIT 2) x) AS c "
    "FROM t",
    "SELECT id, (SELECT w.s || t.s FROM w WHERE w.k = t.k) AS c FROM t",
    "SELECT t.id, l.n, l.r FROM t LEFT JOIN LATERAL (SELECT u.n, u.n + t.k AS r FROM u WHERE u.k = t.k) l ON true",
    "SELECT t.id, l.n FROM t, LATERAL (SELECT DISTINCT u.n FROM u WHERE u.k = t.k) l",
    "SELECT t.id, l.n, l.r FROM t, LATERAL (SELECT u.n, row_number() OVER (ORDER BY u.n, u.s) AS r FROM u WHERE "
    "u.k = t.k) l",
    "SELECT t.id, l.n FROM t LEFT JOIN LATERAL (SELECT u.n FROM u WHERE u.n < t.k ORDER BY u.n DESC, u.s, u.k "
    "LIMIT 1) l ON true",
    "SELECT t.id, l.c FROM t CROSS JOIN LATERAL (SELECT count(*) AS c FROM u WHERE u.n < t.k AND EXISTS (SELECT 1 "
    "FROM w WHERE w.k = u.k AND w.s = t.s)) l",
    "SELECT t.id, l.c FROM t LEFT JOIN w ON w.k = t.k LEFT JOIN LATERAL (SELECT count(*) AS c FROM u WHERE u.n < "
    "w.k OR u.s = t.s) l ON true",
    "SELECT t.id FROM t WHERE EXISTS (SELECT u.k FROM u WHERE u.k = t.k UNION ALL SELECT w.k FROM w WHERE w.s = t.s)",
    "SELECT t.id FROM t WHERE t.k IN (SELECT u.k FROM u WHERE u.s = t.s EXCEPT SELECT w.k FROM w WHERE w.s = t.s)",
    "SELECT t.id, (SELECT max(x.k) FROM (SELECT u.k FROM u WHERE u.s = t.s UNION SELECT w.k FROM w) x) AS m FROM t",
    "SELECT id, (SELECT sum(x) FROM unnest(d.a) x) AS c FROM d",
    "SELECT id, (SELECT string_agg(e ->> 'a', ',' ORDER BY e ->> 'a') FROM jsonb_array_elements(d.l) e) AS c FROM d",
    "SELECT id FROM d WHERE EXISTS (SELECT 1 FROM jsonb_array_elements_text(d.l) e WHERE e = 'a')",
    "SELECT u.k, count(*) FROM u GROUP BY u.k HAVING EXISTS (SELECT 1 FROM w WHERE w.k = u.k AND EXISTS (SELECT 1 "
    "FROM t WHERE t.n > u.k))",
    "SELECT k, (SELECT count(*) FROM u LEFT JOIN t ON t.k = u.k AND t.k > w.k) AS c FROM w",
    "SELECT k FROM w WHERE k > ALL (SELECT u.n FROM u WHERE u.k = w.k AND u.n < (SELECT max(t.k) FROM t WHERE t.s "
    "= w.s))",
    "SELECT u.k, x.c FROM u LEFT JOIN LATERAL (SELECT count(*) AS c FROM t, LATERAL (SELECT 1 AS one FROM w WHERE "
    "w.k = t.k AND w.s = u.s) l) x ON true",
    "SELECT k, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.n > w.k AND u.k IN (SELECT t.k FROM t WHERE t.s = w.s)) "
    "THEN 1 ELSE 0 END AS c FROM w",
    "SELECT t.id, l.n FROM t JOIN w ON w.k = t.k CROSS JOIN LATERAL (SELECT u.n FROM u WHERE u.n BETWEEN w.k AND "
    "t.id GROUP BY u.n HAVING count(*) >= w.k) l",
]
TEMPLATES += APART

# Short forms.
SHORT = [
    "SELECT id, percent_rank() OVER (PARTITION BY k ORDER BY n) AS p, cume_dist() OVER (ORDER BY n) AS c FROM t",
    "SELECT id FROM t WHERE (k, s) IN ((1, 'a'), (2, 'b'), (0, NULL)) OR (k, s) NOT IN ((1, 'b'), (NULL, 'a'))",
    "SELECT id, (k, n) > (1, 0) AS a, (k, n, s) <= (1, 5, 'a') AS b, (k, s) <> (1, 'a') AS c, ROW(k, s) IS "
    "DISTINCT FROM ROW(1, 'b') AS d FROM t",
    "SELECT id FROM t WHERE n BETWEEN SYMMETRIC 5 AND -1 AND NOT k BETWEEN SYMMETRIC 1 AND 1",
    "SELECT k, format('%s of %s: 100%%', s, n), overlay(s placing 'xy' from 1 for 1), overlay(s placing 'é' "
    "from 2) AS o, s LIKE 'a!%%' ESCAPE '!' AS e FROM u",
    "SELECT k, json_build_object('k', k, 's', s, 'a', json_build_array(n, NULL, 'x')) AS j FROM u",
    "SELECT k, jsonb_agg(jsonb_build_object('n', n, 's', s) ORDER BY n, s) AS j, "
    "json_agg(json_build_object('s', s, 'n', n) ORDER BY n DESC, s) AS o, jsonb_agg(DISTINCT n) AS d FROM u "
    "GROUP BY k",
    "SELECT x.k, x.s FROM (SELECT k, s FROM w ORDER BY s, k) x WHERE x.k IN (SELECT n FROM u ORDER BY n)",
    "SELECT u.k, w.s FROM u JOIN w ON w.k = u.k AND EXISTS (SELECT 1 FROM t WHERE t.k = w.k) JOIN t ON t.k = w.k",
    "SELECT k, n, sum(n) FILTER (WHERE s = 'a') OVER (PARTITION BY k) AS f, count(*) FILTER (WHERE n > 0) "
    "OVER (PARTITION BY k) AS c, bool_or(n > 0) OVER (PARTITION BY k ORDER BY n) AS o, every(n > 0) OVER "
    "(PARTITION BY s) FROM u",
    "SELECT m.a, m.s, b.k FROM u AS m (a, b) LEFT JOIN w AS b (k) ON b.k = m.b WHERE m.s COLLATE \"C\" > 'a'",
    "SELECT k, count(*) FROM u GROUP BY k HAVING (k, count(*)) > (0, 1)",
]
TEMPLATES += SHORT

# Functions that give records, VALUES that read what is left of them.
RECORDS = [
    "SELECT d.id, x.a, x.b FROM d, jsonb_to_recordset(jsonb_build_array(d.j, d.j)) AS x (a jsonb, b text) "
    "WHERE d.j IS NOT NULL",
    'SELECT d.id, x.* FROM d LEFT JOIN jsonb_to_record(d.j) AS x (b text, "é" boolean, "c d" text, nothing '
    "int) ON true",
    "SELECT d.id, r.id AS rid, r.v FROM d, jsonb_to_recordset(jsonb_build_array(jsonb_build_object('id', "
    "d.id, 'v', '1.50'), jsonb_build_object('v', NULL))) AS r (id int, v numeric(8,2))",
    "SELECT x.b, count(*) FROM d, ROWS FROM (jsonb_to_record(d.j) AS (a text, b text)) AS x GROUP BY x.b",
    "SELECT d.id, v FROM d, ROWS FROM (unnest(d.a)) AS x (v)",
    "SELECT t.id, x.name, x.value FROM t CROSS JOIN LATERAL (VALUES ('n', t.n), ('k', t.k), (t.s, 7)) AS x "
    "(name, value)",
    "SELECT x.name, count(*), sum(x.column2) AS c FROM u, LATERAL (VALUES ('n', u.n), ('k', u.k)) AS x (name) "
    "WHERE x.column2 > 0 GROUP BY x.name",
    "SELECT d.id, x.a, x.b, x.o FROM d LEFT JOIN LATERAL unnest(d.a, ARRAY['x', NULL]) WITH ORDINALITY AS x "
    "(a, b, o) ON true",
    "SELECT id, (SELECT sum(x.n) FROM jsonb_to_recordset(jsonb_build_array(jsonb_build_object('n', d.id))) AS "
    "x (n int)) AS s FROM d",
    "SELECT d.id, v, o FROM d, ROWS FROM (unnest(d.a)) WITH ORDINALITY AS x (v, o)",
]
TEMPLATES += RECORDS

# As people write them.
TEMPLATES += [
    "SELECT w.k, (SELECT json_agg(json_build_object('n', u.n, 's', u.s) ORDER BY u.n, u.s) FROM u WHERE u.k = "
    "w.k) AS items FROM w",
    "SELECT w.k, (SELECT jsonb_agg(x.n ORDER BY x.n) FROM (SELECT DISTINCT u.n FROM u WHERE u.k = w.k) x) AS "
    "items FROM w",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k GROUP BY u.s HAVING count(*) > t.k)",
    "SELECT id FROM t WHERE k IN (SELECT u.k FROM u WHERE u.n > t.k ORDER BY u.n, u.k LIMIT 1)",
    "SELECT t.id, (SELECT string_agg(w.s, ',' ORDER BY w.s) FROM w WHERE w.k <= t.k) AS upto FROM t",
    "SELECT w.k FROM w WHERE NOT EXISTS (SELECT 1 FROM (VALUES (1), (2)) v (n) WHERE NOT EXISTS (SELECT 1 "
    "FROM u WHERE u.k = w.k AND u.n = v.n))",
    "SELECT id, (SELECT u.s FROM u WHERE u.n <= t.k ORDER BY u.n DESC, u.k, u.s LIMIT 1) AS asof FROM t",
    "SELECT k, (SELECT max(n) FROM (SELECT n FROM u WHERE u.k = w.k UNION ALL SELECT n FROM t WHERE t.k = "
    "w.k) x) AS m FROM w",
    "SELECT u.k, x.id, x.rn FROM u JOIN LATERAL (SELECT t.id, row_number() OVER (ORDER BY t.n DESC NULLS "
    "LAST, t.id) AS rn FROM t WHERE t.k = u.k) x ON x.rn <= 2",
    "SELECT grp, min(id) AS first, max(id) AS last, count(*) AS len FROM (SELECT id, k, id - row_number() "
    "OVER (PARTITION BY k ORDER BY id) AS grp FROM t) x GROUP BY grp, k",
    "SELECT t.id, x.c FROM t LEFT JOIN w ON w.k = t.k CROSS JOIN LATERAL (SELECT count(*) AS c FROM u WHERE "
    "u.s = coalesce(w.s, t.s)) x",
    "SELECT k, (SELECT count(DISTINCT u.s) FROM u WHERE u.n BETWEEN w.k - 1 AND w.k + 1) AS c FROM w",
]

# Functions in FROM, and what is inside jsonb.
FUNCTIONS = [
    "SELECT w.k, g FROM w, generate_series(1, w.k) g",
    "SELECT w.k, g.x FROM w JOIN generate_series(w.k, 0, -2) AS g (x) ON g.x > 1",
    "SELECT g, count(*) FROM generate_series(1, 4) g JOIN w ON w.k >= g GROUP BY g",
    "SELECT u.k, x.* FROM u LEFT JOIN LATERAL generate_series(1, u.n) WITH ORDINALITY AS x ON true",
    "SELECT x.k, y FROM (SELECT k, n FROM u) x, generate_series(x.k, x.n) y WHERE x.k >= 0 AND y > 0",
    "SELECT k FROM w WHERE k IN (SELECT g FROM generate_series(1, 3) g)",
    "SELECT w.k, g FROM w, generate_series(date '2024-02-27', date '2024-02-27' + w.k, interval '1 day') g",
    "SELECT w.k, g::date AS d, o FROM w, generate_series(timestamp '2024-01-31 10:00', "
    "timestamp '2024-01-31 10:00' + w.k * interval '1 month', '1 month'::interval) WITH ORDINALITY AS x (g, o)",
    "SELECT w.k, count(g) FROM w LEFT JOIN generate_series(timestamptz '2024-03-31 00:00:00+00', "
    "timestamptz '2023-03-31 00:00+00' - interval '1 day' * w.k, '-1 month -1 day'::interval) g ON true GROUP BY w.k",
    "SELECT k, (SELECT sum(g) FROM generate_series(1, 3) g) AS s FROM w",
    "SELECT w.k, s.x FROM w, LATERAL (SELECT max(g) AS x FROM u, generate_series(0, u.n) g WHERE u.k = w.k) s",
    "SELECT k, max(g), count(g) AS c FROM u LEFT JOIN generate_series(0, u.n) g ON true GROUP BY k",
    "SELECT * FROM d, unnest(a) WITH ORDINALITY AS x",
    "SELECT d.id, x.v, ordinality FROM d, unnest(a) WITH ORDINALITY AS x (v)",
    "SELECT id, unnest FROM d LEFT JOIN unnest(a) ON true",
    "SELECT u.k, v, o FROM u, unnest(ARRAY[u.k, NULL, 5]) WITH ORDINALITY AS t (v, o)",
    "SELECT v, count(*) FROM u, unnest(ARRAY[u.s, 'a']) v WHERE v <> 'b' GROUP BY v",
    "SELECT id, j -> 'a' AS a, j ->> 'a' AS b, l -> 1 AS d, l ->> -1 AS e, j -> 'a' -> 'b' ->> 1 AS f FROM d",
    "SELECT id, j #> '{a,b}' AS x, j #>> '{a,b,-1}' AS y, l #>> '{1,a}' AS z, j ? 'a' AS q, l ? 'a' AS r FROM d",
    "SELECT id, coalesce(j -> 'a' ->> 'b', 'none') AS x, upper(j ->> 'b') AS y, jsonb_typeof(j -> 'b') AS z FROM d",
    "SELECT id, a[1] AS x, a[2] AS y, cardinality(a) AS n, array_length(a, 1) AS l, array_to_string(a, '-') FROM d",
    "SELECT id FROM d WHERE a @> ARRAY[1] AND NOT a && ARRAY[d.id, 3, NULL] AND ARRAY[id] <@ ARRAY[1, 2, 3, 4, 5]",
    "SELECT id FROM d WHERE id % 4 = ANY (a) OR 2 < ALL (a)",
    "SELECT w.k, d.id, w.k <> ALL (d.a) AS x FROM d JOIN w ON w.k = ANY (d.a)",
    "SELECT k, s FROM u WHERE s NOT LIKE ANY (ARRAY['a%', '%b']) OR s NOT ILIKE ALL (ARRAY['b%', 'é'])",
    "SELECT k, s FROM u WHERE s LIKE ANY (ARRAY['a%', '%b']) AND n < ANY (ARRAY[k, 2]) AND k <> ALL (ARRAY[1, 5])",
    "SELECT id, jsonb_array_length(l) AS n, jsonb_extract_path_text(j, 'a', 'b', '1') AS p, l -> 1 -> 'a' AS q FROM d",
    "SELECT j ->> 'a' AS a, count(*) FROM d WHERE j ? 'a' GROUP BY 1",
    "SELECT id, k, v, o FROM d, jsonb_each(d.j) WITH ORDINALITY AS e (k, v, o)",
    "SELECT key, value, count(*) FROM d, jsonb_each_text(j) GROUP BY key, value",
    "SELECT id, k FROM d, LATERAL jsonb_object_keys(d.j) k",
    "SELECT id, e.value, o FROM d LEFT JOIN LATERAL jsonb_array_elements(d.l) WITH ORDINALITY AS e (value, o) ON true",
    "SELECT id, e ->> 'a' AS a FROM d, jsonb_array_elements(d.l) e",
    "SELECT e, count(*) FROM d, jsonb_array_elements_text(d.l) e GROUP BY e",
    "SELECT w.k, x.key FROM w JOIN (SELECT id, key FROM d, jsonb_each(j)) x ON x.id % 5 = w.k",
    "SELECT id, j || jsonb_build_object('a', l) AS x, l || j AS y, j - 'a' AS z FROM d WHERE NOT j @> '{\"a\": 1}'",
    "SELECT s, jsonb_object_agg(id, m ORDER BY id) AS a, jsonb_object_agg(coalesce(s, '') || id, n) AS b "
    "FROM t GROUP BY s",
    "SELECT jsonb_object_agg(id, j) FILTER (WHERE id > 2) AS o FROM d",
]
TEMPLATES += FUNCTIONS
