-- view aggregate_global
--   π project count = "_count", sum = CASE WHEN "nonnull0" > 0 THEN "sum0" END
--     γ aggregate by (): rows(*), sum("u_n"), nonnull("u_n") [agg0]
--       scan u (n)
-- key: at most one row
-- remembers agg0: _count, sum0, nonnull0
-- when u changes:
--   Δ scan(R) = changes of R
--   Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR
--   Δ π(R) = π(ΔR)
--   reads delta of u
--   reads state of agg0

-- Spark, what changed:
SELECT
  g1.`__side` AS `_weight`,
  NAMED_STRUCT(
    'count',
    CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END,
    'sum',
    CASE
      WHEN CASE WHEN g1.`__side` < 0 THEN g1.`nonnull0__old` ELSE g1.`nonnull0__new` END > 0
      THEN CASE WHEN g1.`__side` < 0 THEN g1.`sum0__old` ELSE g1.`sum0__new` END
    END
  ) AS `view`,
  NAMED_STRUCT(
    '_count',
    CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END,
    'sum0',
    CASE WHEN g1.`__side` < 0 THEN g1.`sum0__old` ELSE g1.`sum0__new` END,
    'nonnull0',
    CASE WHEN g1.`__side` < 0 THEN g1.`nonnull0__old` ELSE g1.`nonnull0__new` END
  ) AS `agg0`
FROM (
  SELECT
    p5.`_count__old`,
    p5.`_count__new`,
    p5.`sum0__old`,
    p5.`sum0__new`,
    p5.`nonnull0__old`,
    p5.`nonnull0__new`,
    EXPLODE(ARRAY(CAST('-1' AS BIGINT), CAST('1' AS BIGINT))) AS `__side`
  FROM (
    SELECT
      SUM(u2.`_count__old`) AS `_count__old`,
      SUM(u2.`_count__new`) AS `_count__new`,
      SUM(u2.`sum0__old`) AS `sum0__old`,
      SUM(u2.`sum0__new`) AS `sum0__new`,
      SUM(u2.`nonnull0__old`) AS `nonnull0__old`,
      SUM(u2.`nonnull0__new`) AS `nonnull0__new`
    FROM (
      SELECT
        s3.`_count` * s3.`_weight` AS `_count__old`,
        s3.`_count` * s3.`_weight` AS `_count__new`,
        s3.`sum0` * s3.`_weight` AS `sum0__old`,
        s3.`sum0` * s3.`_weight` AS `sum0__new`,
        s3.`nonnull0` * s3.`_weight` AS `nonnull0__old`,
        s3.`nonnull0` * s3.`_weight` AS `nonnull0__new`
      FROM state__agg0_d11b76 AS s3
      UNION ALL
      SELECT
        CAST('0' AS BIGINT) AS `_count__old`,
        d4.`_weight` AS `_count__new`,
        CAST('0' AS BIGINT) AS `sum0__old`,
        COALESCE(d4.`n` * d4.`_weight`, CAST('0' AS BIGINT)) AS `sum0__new`,
        CAST('0' AS BIGINT) AS `nonnull0__old`,
        CASE WHEN d4.`n` IS NULL THEN 0 ELSE d4.`_weight` END AS `nonnull0__new`
      FROM delta__u_51e698 AS d4
    ) AS u2
    HAVING
      (
        SUM(u2.`_count__old`) <> SUM(u2.`_count__new`)
      )
      OR (
        SUM(u2.`sum0__old`) <> SUM(u2.`sum0__new`)
      )
      OR (
        SUM(u2.`nonnull0__old`) <> SUM(u2.`nonnull0__new`)
      )
  ) AS p5
) AS g1;

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT('count', t2.`_count`, 'sum', CASE WHEN t2.`nonnull0` > 0 THEN t2.`sum0` END) AS `view`,
  NAMED_STRUCT('_count', t2.`_count`, 'sum0', t2.`sum0`, 'nonnull0', t2.`nonnull0`) AS `agg0`
FROM (
  SELECT
    COUNT(*) AS `_count`,
    COALESCE(SUM(r1.`n`), CAST('0' AS BIGINT)) AS `sum0`,
    COUNT(r1.`n`) AS `nonnull0`
  FROM rows__u_51e698 AS r1
) AS t2;

-- PostgreSQL, what changed:
-- view
SELECT
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END AS "count",
  CASE
    WHEN CASE WHEN g1."__side" < 0 THEN g1."nonnull0__old" ELSE g1."nonnull0__new" END > 0
    THEN CASE WHEN g1."__side" < 0 THEN g1."sum0__old" ELSE g1."sum0__new" END
  END AS "sum",
  g1."__side" AS "_weight"
FROM (
  SELECT
    p5."_count__old",
    p5."_count__new",
    p5."sum0__old",
    p5."sum0__new",
    p5."nonnull0__old",
    p5."nonnull0__new",
    UNNEST(ARRAY[CAST('-1' AS BIGINT), CAST('1' AS BIGINT)]) AS "__side"
  FROM (
    SELECT
      CAST(SUM(u2."_count__old") AS BIGINT) AS "_count__old",
      CAST(SUM(u2."_count__new") AS BIGINT) AS "_count__new",
      CAST(SUM(u2."sum0__old") AS BIGINT) AS "sum0__old",
      CAST(SUM(u2."sum0__new") AS BIGINT) AS "sum0__new",
      CAST(SUM(u2."nonnull0__old") AS BIGINT) AS "nonnull0__old",
      CAST(SUM(u2."nonnull0__new") AS BIGINT) AS "nonnull0__new"
    FROM (
      SELECT
        s3."_count" * s3."_weight" AS "_count__old",
        s3."_count" * s3."_weight" AS "_count__new",
        s3."sum0" * s3."_weight" AS "sum0__old",
        s3."sum0" * s3."_weight" AS "sum0__new",
        s3."nonnull0" * s3."_weight" AS "nonnull0__old",
        s3."nonnull0" * s3."_weight" AS "nonnull0__new"
      FROM state__agg0_d11b76 AS s3
      UNION ALL
      SELECT
        CAST('0' AS BIGINT) AS "_count__old",
        d4."_weight" AS "_count__new",
        CAST('0' AS BIGINT) AS "sum0__old",
        COALESCE(d4."n" * d4."_weight", CAST('0' AS BIGINT)) AS "sum0__new",
        CAST('0' AS BIGINT) AS "nonnull0__old",
        CASE WHEN d4."n" IS NULL THEN 0 ELSE d4."_weight" END AS "nonnull0__new"
      FROM delta__u_51e698 AS d4
    ) AS u2
    HAVING
      (
        CAST(SUM(u2."_count__old") AS BIGINT) <> CAST(SUM(u2."_count__new") AS BIGINT)
      )
      OR (
        CAST(SUM(u2."sum0__old") AS BIGINT) <> CAST(SUM(u2."sum0__new") AS BIGINT)
      )
      OR (
        CAST(SUM(u2."nonnull0__old") AS BIGINT) <> CAST(SUM(u2."nonnull0__new") AS BIGINT)
      )
  ) AS p5
) AS g1;
-- agg0
SELECT
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END AS "_count",
  CASE WHEN g1."__side" < 0 THEN g1."sum0__old" ELSE g1."sum0__new" END AS "sum0",
  CASE WHEN g1."__side" < 0 THEN g1."nonnull0__old" ELSE g1."nonnull0__new" END AS "nonnull0",
  g1."__side" AS "_weight"
FROM (
  SELECT
    p5."_count__old",
    p5."_count__new",
    p5."sum0__old",
    p5."sum0__new",
    p5."nonnull0__old",
    p5."nonnull0__new",
    UNNEST(ARRAY[CAST('-1' AS BIGINT), CAST('1' AS BIGINT)]) AS "__side"
  FROM (
    SELECT
      CAST(SUM(u2."_count__old") AS BIGINT) AS "_count__old",
      CAST(SUM(u2."_count__new") AS BIGINT) AS "_count__new",
      CAST(SUM(u2."sum0__old") AS BIGINT) AS "sum0__old",
      CAST(SUM(u2."sum0__new") AS BIGINT) AS "sum0__new",
      CAST(SUM(u2."nonnull0__old") AS BIGINT) AS "nonnull0__old",
      CAST(SUM(u2."nonnull0__new") AS BIGINT) AS "nonnull0__new"
    FROM (
      SELECT
        s3."_count" * s3."_weight" AS "_count__old",
        s3."_count" * s3."_weight" AS "_count__new",
        s3."sum0" * s3."_weight" AS "sum0__old",
        s3."sum0" * s3."_weight" AS "sum0__new",
        s3."nonnull0" * s3."_weight" AS "nonnull0__old",
        s3."nonnull0" * s3."_weight" AS "nonnull0__new"
      FROM state__agg0_d11b76 AS s3
      UNION ALL
      SELECT
        CAST('0' AS BIGINT) AS "_count__old",
        d4."_weight" AS "_count__new",
        CAST('0' AS BIGINT) AS "sum0__old",
        COALESCE(d4."n" * d4."_weight", CAST('0' AS BIGINT)) AS "sum0__new",
        CAST('0' AS BIGINT) AS "nonnull0__old",
        CASE WHEN d4."n" IS NULL THEN 0 ELSE d4."_weight" END AS "nonnull0__new"
      FROM delta__u_51e698 AS d4
    ) AS u2
    HAVING
      (
        CAST(SUM(u2."_count__old") AS BIGINT) <> CAST(SUM(u2."_count__new") AS BIGINT)
      )
      OR (
        CAST(SUM(u2."sum0__old") AS BIGINT) <> CAST(SUM(u2."sum0__new") AS BIGINT)
      )
      OR (
        CAST(SUM(u2."nonnull0__old") AS BIGINT) <> CAST(SUM(u2."nonnull0__new") AS BIGINT)
      )
  ) AS p5
) AS g1;
