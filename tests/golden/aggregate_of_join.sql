-- view aggregate_of_join
--   π project s = "s", sum = CAST(CASE WHEN "nonnull0" > 0 THEN "sum0" END AS DECIMAL)
--     γ aggregate by "w_s": rows(*), sum("t_m"), nonnull("t_m") [agg0]
--       ⋈ join on ("w_k" = "t_k")
--         scan t (k, m)
--         scan w (k, s)
-- key: s
-- remembers agg0: g0, _count, sum0, nonnull0
-- when t, w changes:
--   Δ scan(R) = changes of R
--   Δ (L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR
--   Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR
--   Δ π(R) = π(ΔR)
--   reads after of t, where k in delta of w
--   reads before of w, where k in delta of t
--   reads delta of t
--   reads delta of w
--   reads state of agg0, where g0 in before of w or g0 in delta of w

-- Spark, what changed:
WITH q1 AS (
  SELECT
    u8.`w_s` AS `s`,
    SUM(u8.`_weight`) AS `_count`,
    CAST(COALESCE(SUM(u8.`t_m` * u8.`_weight`), CAST('0' AS DECIMAL(38, 2))) AS DECIMAL(38, 2)) AS `sum0`,
    SUM(CASE WHEN u8.`t_m` IS NULL THEN 0 ELSE u8.`_weight` END) AS `nonnull0`
  FROM (
    SELECT /*+ BROADCAST(d4) */
      d4.`k` AS `t_k`,
      d4.`m` AS `t_m`,
      b5.`k` AS `w_k`,
      b5.`s` AS `w_s`,
      d4.`_weight` * b5.`_weight` AS `_weight`
    FROM delta__t_8efd86 AS d4
    JOIN before__w_aff024 AS b5
      ON b5.`k` = d4.`k`
    UNION ALL
    SELECT /*+ BROADCAST(d6) */
      a7.`k` AS `t_k`,
      a7.`m` AS `t_m`,
      d6.`k` AS `w_k`,
      d6.`s` AS `w_s`,
      d6.`_weight` * a7.`_weight` AS `_weight`
    FROM delta__w_aff024 AS d6
    JOIN after__t_8efd86 AS a7
      ON d6.`k` = a7.`k`
  ) AS u8
  GROUP BY
    u8.`w_s`
  HAVING
    (
      SUM(u8.`_weight`) <> 0
    )
    OR (
      CAST(COALESCE(SUM(u8.`t_m` * u8.`_weight`), CAST('0' AS DECIMAL(38, 2))) AS DECIMAL(38, 2)) <> 0
    )
    OR (
      SUM(CASE WHEN u8.`t_m` IS NULL THEN 0 ELSE u8.`_weight` END) <> 0
    )
)
SELECT
  g1.`__side` AS `_weight`,
  NAMED_STRUCT(
    's',
    g1.`s`,
    'sum',
    CAST(CASE
      WHEN CASE WHEN g1.`__side` < 0 THEN g1.`nonnull0__old` ELSE g1.`nonnull0__new` END > 0
      THEN CASE WHEN g1.`__side` < 0 THEN g1.`sum0__old` ELSE g1.`sum0__new` END
    END AS DECIMAL(38, 2))
  ) AS `view`,
  NAMED_STRUCT(
    'g0',
    g1.`s`,
    '_count',
    CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END,
    'sum0',
    CASE WHEN g1.`__side` < 0 THEN g1.`sum0__old` ELSE g1.`sum0__new` END,
    'nonnull0',
    CASE WHEN g1.`__side` < 0 THEN g1.`nonnull0__old` ELSE g1.`nonnull0__new` END
  ) AS `agg0`
FROM (
  SELECT
    p12.`s`,
    p12.`_count__old`,
    p12.`_count__new`,
    p12.`sum0__old`,
    p12.`sum0__new`,
    p12.`nonnull0__old`,
    p12.`nonnull0__new`,
    EXPLODE(ARRAY(CAST('-1' AS BIGINT), CAST('1' AS BIGINT))) AS `__side`
  FROM (
    SELECT
      u2.`s`,
      SUM(u2.`_count__old`) AS `_count__old`,
      SUM(u2.`_count__new`) AS `_count__new`,
      CAST(SUM(u2.`sum0__old`) AS DECIMAL(38, 2)) AS `sum0__old`,
      CAST(SUM(u2.`sum0__new`) AS DECIMAL(38, 2)) AS `sum0__new`,
      SUM(u2.`nonnull0__old`) AS `nonnull0__old`,
      SUM(u2.`nonnull0__new`) AS `nonnull0__new`
    FROM (
      SELECT /*+ BROADCAST(k10) */
        s3.`g0` AS `s`,
        s3.`_count` * s3.`_weight` AS `_count__old`,
        s3.`_count` * s3.`_weight` AS `_count__new`,
        s3.`sum0` * s3.`_weight` AS `sum0__old`,
        s3.`sum0` * s3.`_weight` AS `sum0__new`,
        s3.`nonnull0` * s3.`_weight` AS `nonnull0__old`,
        s3.`nonnull0` * s3.`_weight` AS `nonnull0__new`
      FROM state__agg0_d11b76 AS s3
      LEFT SEMI JOIN q1 AS k10
        ON s3.`g0` IS NOT DISTINCT FROM k10.`s`
      UNION ALL
      SELECT
        t11.`s`,
        CAST('0' AS BIGINT) AS `_count__old`,
        t11.`_count` AS `_count__new`,
        CAST('0' AS DECIMAL(38, 2)) AS `sum0__old`,
        t11.`sum0` AS `sum0__new`,
        CAST('0' AS BIGINT) AS `nonnull0__old`,
        t11.`nonnull0` AS `nonnull0__new`
      FROM q1 AS t11
    ) AS u2
    GROUP BY
      u2.`s`
    HAVING
      (
        SUM(u2.`_count__old`) <> SUM(u2.`_count__new`)
      )
      OR (
        CAST(SUM(u2.`sum0__old`) AS DECIMAL(38, 2)) <> CAST(SUM(u2.`sum0__new`) AS DECIMAL(38, 2))
      )
      OR (
        SUM(u2.`nonnull0__old`) <> SUM(u2.`nonnull0__new`)
      )
  ) AS p12
) AS g1
WHERE
  CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END > 0;

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT(
    's',
    t3.`s`,
    'sum',
    CAST(CASE WHEN t3.`nonnull0` > 0 THEN t3.`sum0` END AS DECIMAL(38, 2))
  ) AS `view`,
  NAMED_STRUCT('g0', t3.`s`, '_count', t3.`_count`, 'sum0', t3.`sum0`, 'nonnull0', t3.`nonnull0`) AS `agg0`
FROM (
  SELECT
    r2.`s`,
    COUNT(*) AS `_count`,
    CAST(COALESCE(SUM(r1.`m`), CAST('0' AS DECIMAL(38, 2))) AS DECIMAL(38, 2)) AS `sum0`,
    COUNT(r1.`m`) AS `nonnull0`
  FROM rows__t_8efd86 AS r1
  JOIN rows__w_aff024 AS r2
    ON r2.`k` = r1.`k`
  GROUP BY
    r2.`s`
) AS t3;

-- PostgreSQL, what changed:
-- view
WITH q1 AS (
  SELECT
    u8."w_s" AS "s",
    CAST(SUM(u8."_weight") AS BIGINT) AS "_count",
    CAST(COALESCE(SUM(u8."t_m" * u8."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) AS "sum0",
    CAST(SUM(CASE WHEN u8."t_m" IS NULL THEN 0 ELSE u8."_weight" END) AS BIGINT) AS "nonnull0"
  FROM (
    SELECT
      d4."k" AS "t_k",
      d4."m" AS "t_m",
      b5."k" AS "w_k",
      b5."s" AS "w_s",
      d4."_weight" * b5."_weight" AS "_weight"
    FROM delta__t_8efd86 AS d4
    JOIN before__w_aff024 AS b5
      ON b5."k" = d4."k"
    UNION ALL
    SELECT
      a7."k" AS "t_k",
      a7."m" AS "t_m",
      d6."k" AS "w_k",
      d6."s" AS "w_s",
      d6."_weight" * a7."_weight" AS "_weight"
    FROM delta__w_aff024 AS d6
    JOIN after__t_8efd86 AS a7
      ON d6."k" = a7."k"
  ) AS u8
  GROUP BY
    u8."w_s"
  HAVING
    (
      CAST(SUM(u8."_weight") AS BIGINT) <> 0
    )
    OR (
      CAST(COALESCE(SUM(u8."t_m" * u8."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) <> 0
    )
    OR (
      CAST(SUM(CASE WHEN u8."t_m" IS NULL THEN 0 ELSE u8."_weight" END) AS BIGINT) <> 0
    )
)
SELECT
  g1."s",
  CAST(CASE
    WHEN CASE WHEN g1."__side" < 0 THEN g1."nonnull0__old" ELSE g1."nonnull0__new" END > 0
    THEN CASE WHEN g1."__side" < 0 THEN g1."sum0__old" ELSE g1."sum0__new" END
  END AS DECIMAL) AS "sum",
  g1."__side" AS "_weight"
FROM (
  SELECT
    p12."s",
    p12."_count__old",
    p12."_count__new",
    p12."sum0__old",
    p12."sum0__new",
    p12."nonnull0__old",
    p12."nonnull0__new",
    UNNEST(ARRAY[CAST('-1' AS BIGINT), CAST('1' AS BIGINT)]) AS "__side"
  FROM (
    SELECT
      u2."s",
      CAST(SUM(u2."_count__old") AS BIGINT) AS "_count__old",
      CAST(SUM(u2."_count__new") AS BIGINT) AS "_count__new",
      CAST(SUM(u2."sum0__old") AS DECIMAL) AS "sum0__old",
      CAST(SUM(u2."sum0__new") AS DECIMAL) AS "sum0__new",
      CAST(SUM(u2."nonnull0__old") AS BIGINT) AS "nonnull0__old",
      CAST(SUM(u2."nonnull0__new") AS BIGINT) AS "nonnull0__new"
    FROM (
      SELECT
        s3."g0" AS "s",
        s3."_count" * s3."_weight" AS "_count__old",
        s3."_count" * s3."_weight" AS "_count__new",
        s3."sum0" * s3."_weight" AS "sum0__old",
        s3."sum0" * s3."_weight" AS "sum0__new",
        s3."nonnull0" * s3."_weight" AS "nonnull0__old",
        s3."nonnull0" * s3."_weight" AS "nonnull0__new"
      FROM state__agg0_d11b76 AS s3
      WHERE
        EXISTS(
          SELECT
            1
          FROM q1 AS k10
          WHERE
            s3."g0" IS NOT DISTINCT FROM k10."s"
        )
      UNION ALL
      SELECT
        t11."s",
        CAST('0' AS BIGINT) AS "_count__old",
        t11."_count" AS "_count__new",
        CAST('0' AS DECIMAL) AS "sum0__old",
        t11."sum0" AS "sum0__new",
        CAST('0' AS BIGINT) AS "nonnull0__old",
        t11."nonnull0" AS "nonnull0__new"
      FROM q1 AS t11
    ) AS u2
    GROUP BY
      u2."s"
    HAVING
      (
        CAST(SUM(u2."_count__old") AS BIGINT) <> CAST(SUM(u2."_count__new") AS BIGINT)
      )
      OR (
        CAST(SUM(u2."sum0__old") AS DECIMAL) <> CAST(SUM(u2."sum0__new") AS DECIMAL)
      )
      OR (
        CAST(SUM(u2."nonnull0__old") AS BIGINT) <> CAST(SUM(u2."nonnull0__new") AS BIGINT)
      )
  ) AS p12
) AS g1
WHERE
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END > 0;
-- agg0
WITH q1 AS (
  SELECT
    u8."w_s" AS "s",
    CAST(SUM(u8."_weight") AS BIGINT) AS "_count",
    CAST(COALESCE(SUM(u8."t_m" * u8."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) AS "sum0",
    CAST(SUM(CASE WHEN u8."t_m" IS NULL THEN 0 ELSE u8."_weight" END) AS BIGINT) AS "nonnull0"
  FROM (
    SELECT
      d4."k" AS "t_k",
      d4."m" AS "t_m",
      b5."k" AS "w_k",
      b5."s" AS "w_s",
      d4."_weight" * b5."_weight" AS "_weight"
    FROM delta__t_8efd86 AS d4
    JOIN before__w_aff024 AS b5
      ON b5."k" = d4."k"
    UNION ALL
    SELECT
      a7."k" AS "t_k",
      a7."m" AS "t_m",
      d6."k" AS "w_k",
      d6."s" AS "w_s",
      d6."_weight" * a7."_weight" AS "_weight"
    FROM delta__w_aff024 AS d6
    JOIN after__t_8efd86 AS a7
      ON d6."k" = a7."k"
  ) AS u8
  GROUP BY
    u8."w_s"
  HAVING
    (
      CAST(SUM(u8."_weight") AS BIGINT) <> 0
    )
    OR (
      CAST(COALESCE(SUM(u8."t_m" * u8."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) <> 0
    )
    OR (
      CAST(SUM(CASE WHEN u8."t_m" IS NULL THEN 0 ELSE u8."_weight" END) AS BIGINT) <> 0
    )
)
SELECT
  g1."s" AS "g0",
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END AS "_count",
  CASE WHEN g1."__side" < 0 THEN g1."sum0__old" ELSE g1."sum0__new" END AS "sum0",
  CASE WHEN g1."__side" < 0 THEN g1."nonnull0__old" ELSE g1."nonnull0__new" END AS "nonnull0",
  g1."__side" AS "_weight"
FROM (
  SELECT
    p12."s",
    p12."_count__old",
    p12."_count__new",
    p12."sum0__old",
    p12."sum0__new",
    p12."nonnull0__old",
    p12."nonnull0__new",
    UNNEST(ARRAY[CAST('-1' AS BIGINT), CAST('1' AS BIGINT)]) AS "__side"
  FROM (
    SELECT
      u2."s",
      CAST(SUM(u2."_count__old") AS BIGINT) AS "_count__old",
      CAST(SUM(u2."_count__new") AS BIGINT) AS "_count__new",
      CAST(SUM(u2."sum0__old") AS DECIMAL) AS "sum0__old",
      CAST(SUM(u2."sum0__new") AS DECIMAL) AS "sum0__new",
      CAST(SUM(u2."nonnull0__old") AS BIGINT) AS "nonnull0__old",
      CAST(SUM(u2."nonnull0__new") AS BIGINT) AS "nonnull0__new"
    FROM (
      SELECT
        s3."g0" AS "s",
        s3."_count" * s3."_weight" AS "_count__old",
        s3."_count" * s3."_weight" AS "_count__new",
        s3."sum0" * s3."_weight" AS "sum0__old",
        s3."sum0" * s3."_weight" AS "sum0__new",
        s3."nonnull0" * s3."_weight" AS "nonnull0__old",
        s3."nonnull0" * s3."_weight" AS "nonnull0__new"
      FROM state__agg0_d11b76 AS s3
      WHERE
        EXISTS(
          SELECT
            1
          FROM q1 AS k10
          WHERE
            s3."g0" IS NOT DISTINCT FROM k10."s"
        )
      UNION ALL
      SELECT
        t11."s",
        CAST('0' AS BIGINT) AS "_count__old",
        t11."_count" AS "_count__new",
        CAST('0' AS DECIMAL) AS "sum0__old",
        t11."sum0" AS "sum0__new",
        CAST('0' AS BIGINT) AS "nonnull0__old",
        t11."nonnull0" AS "nonnull0__new"
      FROM q1 AS t11
    ) AS u2
    GROUP BY
      u2."s"
    HAVING
      (
        CAST(SUM(u2."_count__old") AS BIGINT) <> CAST(SUM(u2."_count__new") AS BIGINT)
      )
      OR (
        CAST(SUM(u2."sum0__old") AS DECIMAL) <> CAST(SUM(u2."sum0__new") AS DECIMAL)
      )
      OR (
        CAST(SUM(u2."nonnull0__old") AS BIGINT) <> CAST(SUM(u2."nonnull0__new") AS BIGINT)
      )
  ) AS p12
) AS g1
WHERE
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END > 0;
