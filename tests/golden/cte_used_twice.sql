-- view cte_used_twice
--   π project k = "a_k", x = "b_x"
--     ⋈ join on ("a_k" = "b_x")
--       π project a_k = "k"
--         γ aggregate by "u_k": rows(*), max("u_n") [agg0]
--           scan u (k, n)
--       π project b_x = "max0"
--         γ aggregate by "u_k": rows(*), max("u_n") [agg0]
--           scan u (k, n)
-- key: unknown
-- remembers agg0: g0, _count, max0
-- when u changes:
--   Δ scan(R) = changes of R
--   Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR
--   Δ π(R) = π(ΔR)
--   Δ (L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR
--   reads after of u, where k in delta of u
--   reads delta of u
--   reads state of agg0

-- Spark, what changed:
WITH q1 AS (
  SELECT
    d2.`k`
  FROM delta__u_51e698 AS d2
  GROUP BY
    d2.`k`
), q2 AS (
  SELECT
    u9.`k`,
    u9.`_count`,
    u9.`max0`,
    u9.`_weight`
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
  ) AS u9
)
SELECT
  u16.`_weight`,
  NAMED_STRUCT('k', u16.`a_k`, 'x', u16.`b_x`) AS `view`,
  CAST(NULL AS STRUCT<`g0`: INT, `_count`: BIGINT, `max0`: INT>) AS `agg0`
FROM (
  SELECT /*+ BROADCAST(t10) */
    t10.`k` AS `a_k`,
    s11.`max0` AS `b_x`,
    t10.`_weight` * s11.`_weight` AS `_weight`
  FROM q2 AS t10
  JOIN state__agg0_d11b76 AS s11
    ON t10.`k` = s11.`max0`
  UNION ALL
  SELECT /*+ BROADCAST(t12) */
    u15.`k` AS `a_k`,
    t12.`max0` AS `b_x`,
    t12.`_weight` * u15.`_weight` AS `_weight`
  FROM q2 AS t12
  JOIN (
    SELECT
      s13.`g0` AS `k`,
      s13.`_count`,
      s13.`max0`,
      s13.`_weight`
    FROM state__agg0_d11b76 AS s13
    UNION ALL
    SELECT
      t14.`k`,
      t14.`_count`,
      t14.`max0`,
      t14.`_weight`
    FROM q2 AS t14
  ) AS u15
    ON u15.`k` = t12.`max0`
) AS u16
UNION ALL
SELECT
  t17.`_weight`,
  CAST(NULL AS STRUCT<`k`: INT, `x`: INT>) AS `view`,
  NAMED_STRUCT('g0', t17.`k`, '_count', t17.`_count`, 'max0', t17.`max0`) AS `agg0`
FROM q2 AS t17;

-- Spark, everything:
WITH q1 AS (
  SELECT
    r1.`k`,
    COUNT(*) AS `_count`,
    MAX(r1.`n`) AS `max0`
  FROM rows__u_51e698 AS r1
  GROUP BY
    r1.`k`
)
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT('k', t2.`k`, 'x', t3.`max0`) AS `view`,
  CAST(NULL AS STRUCT<`g0`: INT, `_count`: BIGINT, `max0`: INT>) AS `agg0`
FROM q1 AS t2
JOIN q1 AS t3
  ON t2.`k` = t3.`max0`
UNION ALL
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  CAST(NULL AS STRUCT<`k`: INT, `x`: INT>) AS `view`,
  NAMED_STRUCT('g0', t4.`k`, '_count', t4.`_count`, 'max0', t4.`max0`) AS `agg0`
FROM q1 AS t4;

-- PostgreSQL, what changed:
-- view
WITH q1 AS (
  SELECT
    d2."k"
  FROM delta__u_51e698 AS d2
  GROUP BY
    d2."k"
), q2 AS (
  SELECT
    u9."k",
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
  ) AS u9
)
SELECT
  u16."a_k" AS "k",
  u16."b_x" AS "x",
  u16."_weight"
FROM (
  SELECT
    t10."k" AS "a_k",
    s11."max0" AS "b_x",
    t10."_weight" * s11."_weight" AS "_weight"
  FROM q2 AS t10
  JOIN state__agg0_d11b76 AS s11
    ON t10."k" = s11."max0"
  UNION ALL
  SELECT
    u15."k" AS "a_k",
    t12."max0" AS "b_x",
    t12."_weight" * u15."_weight" AS "_weight"
  FROM q2 AS t12
  JOIN (
    SELECT
      s13."g0" AS "k",
      s13."_count",
      s13."max0",
      s13."_weight"
    FROM state__agg0_d11b76 AS s13
    UNION ALL
    SELECT
      t14."k",
      t14."_count",
      t14."max0",
      t14."_weight"
    FROM q2 AS t14
  ) AS u15
    ON u15."k" = t12."max0"
) AS u16;
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
