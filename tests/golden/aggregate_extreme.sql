-- view aggregate_extreme
--   π project k = "k", max = "max0"
--     γ aggregate by "u_k": rows(*), max("u_n") [agg0]
--       scan u (k, n)
-- key: k
-- remembers agg0: g0, _count, max0
-- when u changes:
--   Δ scan(R) = changes of R
--   Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR
--   Δ π(R) = π(ΔR)
--   reads after of u, where k in delta of u
--   reads delta of u
--   reads state of agg0, where g0 in delta of u

-- Spark, what changed:
WITH q1 AS (
  SELECT
    d2.`k`
  FROM delta__u_51e698 AS d2
  GROUP BY
    d2.`k`
)
SELECT
  u9.`_weight`,
  NAMED_STRUCT('k', u9.`k`, 'max', u9.`max0`) AS `view`,
  NAMED_STRUCT('g0', u9.`k`, '_count', u9.`_count`, 'max0', u9.`max0`) AS `agg0`
FROM (
  SELECT /*+ BROADCAST(k4) */
    s1.`g0` AS `k`,
    s1.`_count`,
    s1.`max0`,
    (
      -1
    ) * s1.`_weight` AS `_weight`
  FROM state__agg0_d11b76 AS s1
  LEFT SEMI JOIN q1 AS k4
    ON s1.`g0` IS NOT DISTINCT FROM k4.`k`
  UNION ALL
  SELECT
    t8.`k`,
    SUM(t8.`_weight`) AS `_count`,
    MAX(t8.`max0__arg`) AS `max0`,
    CAST('1' AS BIGINT) AS `_weight`
  FROM (
    SELECT /*+ BROADCAST(k7) */
      a5.`k`,
      a5.`n` AS `max0__arg`,
      SUM(a5.`_weight`) AS `_weight`
    FROM after__u_51e698 AS a5
    LEFT SEMI JOIN q1 AS k7
      ON a5.`k` IS NOT DISTINCT FROM k7.`k`
    GROUP BY
      a5.`k`,
      a5.`n`
    HAVING
      SUM(a5.`_weight`) > 0
  ) AS t8
  GROUP BY
    t8.`k`
  HAVING
    SUM(t8.`_weight`) > 0
) AS u9;

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT('k', t2.`k`, 'max', t2.`max0`) AS `view`,
  NAMED_STRUCT('g0', t2.`k`, '_count', t2.`_count`, 'max0', t2.`max0`) AS `agg0`
FROM (
  SELECT
    r1.`k`,
    COUNT(*) AS `_count`,
    MAX(r1.`n`) AS `max0`
  FROM rows__u_51e698 AS r1
  GROUP BY
    r1.`k`
) AS t2;

-- PostgreSQL, what changed:
-- view
WITH q1 AS (
  SELECT
    d2."k"
  FROM delta__u_51e698 AS d2
  GROUP BY
    d2."k"
)
SELECT
  u9."k",
  u9."max0" AS "max",
  u9."_weight"
FROM (
  SELECT
    s1."g0" AS "k",
    s1."_count",
    s1."max0",
    (
      -1
    ) * s1."_weight" AS "_weight"
  FROM state__agg0_d11b76 AS s1
  WHERE
    EXISTS(
      SELECT
        1
      FROM q1 AS k4
      WHERE
        s1."g0" IS NOT DISTINCT FROM k4."k"
    )
  UNION ALL
  SELECT
    t8."k",
    CAST(SUM(t8."_weight") AS BIGINT) AS "_count",
    MAX(t8."max0__arg") AS "max0",
    CAST('1' AS BIGINT) AS "_weight"
  FROM (
    SELECT
      a5."k",
      a5."n" AS "max0__arg",
      SUM(a5."_weight") AS "_weight"
    FROM after__u_51e698 AS a5
    WHERE
      EXISTS(
        SELECT
          1
        FROM q1 AS k7
        WHERE
          a5."k" IS NOT DISTINCT FROM k7."k"
      )
    GROUP BY
      a5."k",
      a5."n"
    HAVING
      SUM(a5."_weight") > 0
  ) AS t8
  GROUP BY
    t8."k"
  HAVING
    CAST(SUM(t8."_weight") AS BIGINT) > 0
) AS u9;
-- agg0
WITH q1 AS (
  SELECT
    d2."k"
  FROM delta__u_51e698 AS d2
  GROUP BY
    d2."k"
)
SELECT
  u9."k" AS "g0",
  u9."_count",
  u9."max0",
  u9."_weight"
FROM (
  SELECT
    s1."g0" AS "k",
    s1."_count",
    s1."max0",
    (
      -1
    ) * s1."_weight" AS "_weight"
  FROM state__agg0_d11b76 AS s1
  WHERE
    EXISTS(
      SELECT
        1
      FROM q1 AS k4
      WHERE
        s1."g0" IS NOT DISTINCT FROM k4."k"
    )
  UNION ALL
  SELECT
    t8."k",
    CAST(SUM(t8."_weight") AS BIGINT) AS "_count",
    MAX(t8."max0__arg") AS "max0",
    CAST('1' AS BIGINT) AS "_weight"
  FROM (
    SELECT
      a5."k",
      a5."n" AS "max0__arg",
      SUM(a5."_weight") AS "_weight"
    FROM after__u_51e698 AS a5
    WHERE
      EXISTS(
        SELECT
          1
        FROM q1 AS k7
        WHERE
          a5."k" IS NOT DISTINCT FROM k7."k"
      )
    GROUP BY
      a5."k",
      a5."n"
    HAVING
      SUM(a5."_weight") > 0
  ) AS t8
  GROUP BY
    t8."k"
  HAVING
    CAST(SUM(t8."_weight") AS BIGINT) > 0
) AS u9;
