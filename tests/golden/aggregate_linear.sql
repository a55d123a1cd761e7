-- view aggregate_linear
--   π project k = "k", count = "_count", sum = CAST(CASE WHEN "nonnull0" > 0 THEN "sum0" END AS DECIMAL), avg = CAST(CASE WHEN "nonnull1" > 0 THEN "sum1" / CAST("nonnull1" AS DECIMAL) END AS DECIMAL)
--     σ filter ("_count" > CAST(1 AS BIGINT))
--       γ aggregate by "t_k": rows(*), sum("t_m"), nonnull("t_m"), sum("t_n"), nonnull("t_n") [agg0]
--         scan t (k, n, m)
-- key: k
-- remembers agg0: g0, _count, sum0, nonnull0, sum1, nonnull1
-- when t changes:
--   Δ scan(R) = changes of R
--   Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR
--   Δ σ(R) = σ(ΔR)
--   Δ π(R) = π(ΔR)
--   reads delta of t
--   reads state of agg0, where g0 in delta of t

-- Spark, what changed:
WITH q1 AS (
  SELECT
    d4.`k`,
    SUM(d4.`_weight`) AS `_count`,
    CAST(COALESCE(SUM(d4.`m` * d4.`_weight`), CAST('0' AS DECIMAL(38, 2))) AS DECIMAL(38, 2)) AS `sum0`,
    SUM(CASE WHEN d4.`m` IS NULL THEN 0 ELSE d4.`_weight` END) AS `nonnull0`,
    CAST(COALESCE(SUM(CAST(d4.`n` AS DECIMAL(38, 0)) * d4.`_weight`), CAST('0' AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) AS `sum1`,
    SUM(CASE WHEN d4.`n` IS NULL THEN 0 ELSE d4.`_weight` END) AS `nonnull1`
  FROM delta__t_8efd86 AS d4
  GROUP BY
    d4.`k`
  HAVING
    (
      SUM(d4.`_weight`) <> 0
    )
    OR (
      CAST(COALESCE(SUM(d4.`m` * d4.`_weight`), CAST('0' AS DECIMAL(38, 2))) AS DECIMAL(38, 2)) <> 0
    )
    OR (
      SUM(CASE WHEN d4.`m` IS NULL THEN 0 ELSE d4.`_weight` END) <> 0
    )
    OR (
      CAST(COALESCE(SUM(CAST(d4.`n` AS DECIMAL(38, 0)) * d4.`_weight`), CAST('0' AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) <> 0
    )
    OR (
      SUM(CASE WHEN d4.`n` IS NULL THEN 0 ELSE d4.`_weight` END) <> 0
    )
)
SELECT
  g1.`__side` AS `_weight`,
  CASE
    WHEN CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END > CAST(1 AS BIGINT)
    THEN NAMED_STRUCT(
      'k',
      g1.`k`,
      'count',
      CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END,
      'sum',
      CAST(CASE
        WHEN CASE WHEN g1.`__side` < 0 THEN g1.`nonnull0__old` ELSE g1.`nonnull0__new` END > 0
        THEN CASE WHEN g1.`__side` < 0 THEN g1.`sum0__old` ELSE g1.`sum0__new` END
      END AS DECIMAL(38, 2)),
      'avg',
      CAST(CASE
        WHEN CASE WHEN g1.`__side` < 0 THEN g1.`nonnull1__old` ELSE g1.`nonnull1__new` END > 0
        THEN CASE WHEN g1.`__side` < 0 THEN g1.`sum1__old` ELSE g1.`sum1__new` END / CAST(CASE WHEN g1.`__side` < 0 THEN g1.`nonnull1__old` ELSE g1.`nonnull1__new` END AS DECIMAL(32, 0))
      END AS DECIMAL(38, 16))
    )
    ELSE CAST(NULL AS STRUCT<`k`: INT, `count`: BIGINT, `sum`: DECIMAL(38, 2), `avg`: DECIMAL(38, 16)>)
  END AS `view`,
  NAMED_STRUCT(
    'g0',
    g1.`k`,
    '_count',
    CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END,
    'sum0',
    CASE WHEN g1.`__side` < 0 THEN g1.`sum0__old` ELSE g1.`sum0__new` END,
    'nonnull0',
    CASE WHEN g1.`__side` < 0 THEN g1.`nonnull0__old` ELSE g1.`nonnull0__new` END,
    'sum1',
    CASE WHEN g1.`__side` < 0 THEN g1.`sum1__old` ELSE g1.`sum1__new` END,
    'nonnull1',
    CASE WHEN g1.`__side` < 0 THEN g1.`nonnull1__old` ELSE g1.`nonnull1__new` END
  ) AS `agg0`
FROM (
  SELECT
    p8.`k`,
    p8.`_count__old`,
    p8.`_count__new`,
    p8.`sum0__old`,
    p8.`sum0__new`,
    p8.`nonnull0__old`,
    p8.`nonnull0__new`,
    p8.`sum1__old`,
    p8.`sum1__new`,
    p8.`nonnull1__old`,
    p8.`nonnull1__new`,
    EXPLODE(ARRAY(CAST('-1' AS BIGINT), CAST('1' AS BIGINT))) AS `__side`
  FROM (
    SELECT
      u2.`k`,
      SUM(u2.`_count__old`) AS `_count__old`,
      SUM(u2.`_count__new`) AS `_count__new`,
      CAST(SUM(u2.`sum0__old`) AS DECIMAL(38, 2)) AS `sum0__old`,
      CAST(SUM(u2.`sum0__new`) AS DECIMAL(38, 2)) AS `sum0__new`,
      SUM(u2.`nonnull0__old`) AS `nonnull0__old`,
      SUM(u2.`nonnull0__new`) AS `nonnull0__new`,
      CAST(SUM(u2.`sum1__old`) AS DECIMAL(38, 0)) AS `sum1__old`,
      CAST(SUM(u2.`sum1__new`) AS DECIMAL(38, 0)) AS `sum1__new`,
      SUM(u2.`nonnull1__old`) AS `nonnull1__old`,
      SUM(u2.`nonnull1__new`) AS `nonnull1__new`
    FROM (
      SELECT /*+ BROADCAST(k6) */
        s3.`g0` AS `k`,
        s3.`_count` * s3.`_weight` AS `_count__old`,
        s3.`_count` * s3.`_weight` AS `_count__new`,
        s3.`sum0` * s3.`_weight` AS `sum0__old`,
        s3.`sum0` * s3.`_weight` AS `sum0__new`,
        s3.`nonnull0` * s3.`_weight` AS `nonnull0__old`,
        s3.`nonnull0` * s3.`_weight` AS `nonnull0__new`,
        s3.`sum1` * s3.`_weight` AS `sum1__old`,
        s3.`sum1` * s3.`_weight` AS `sum1__new`,
        s3.`nonnull1` * s3.`_weight` AS `nonnull1__old`,
        s3.`nonnull1` * s3.`_weight` AS `nonnull1__new`
      FROM state__agg0_d11b76 AS s3
      LEFT SEMI JOIN q1 AS k6
        ON s3.`g0` IS NOT DISTINCT FROM k6.`k`
      UNION ALL
      SELECT
        t7.`k`,
        CAST('0' AS BIGINT) AS `_count__old`,
        t7.`_count` AS `_count__new`,
        CAST('0' AS DECIMAL(38, 2)) AS `sum0__old`,
        t7.`sum0` AS `sum0__new`,
        CAST('0' AS BIGINT) AS `nonnull0__old`,
        t7.`nonnull0` AS `nonnull0__new`,
        CAST('0' AS DECIMAL(38, 0)) AS `sum1__old`,
        t7.`sum1` AS `sum1__new`,
        CAST('0' AS BIGINT) AS `nonnull1__old`,
        t7.`nonnull1` AS `nonnull1__new`
      FROM q1 AS t7
    ) AS u2
    GROUP BY
      u2.`k`
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
      OR (
        CAST(SUM(u2.`sum1__old`) AS DECIMAL(38, 0)) <> CAST(SUM(u2.`sum1__new`) AS DECIMAL(38, 0))
      )
      OR (
        SUM(u2.`nonnull1__old`) <> SUM(u2.`nonnull1__new`)
      )
  ) AS p8
) AS g1
WHERE
  CASE WHEN g1.`__side` < 0 THEN g1.`_count__old` ELSE g1.`_count__new` END > 0;

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  CASE
    WHEN t2.`_count` > CAST(1 AS BIGINT)
    THEN NAMED_STRUCT(
      'k',
      t2.`k`,
      'count',
      t2.`_count`,
      'sum',
      CAST(CASE WHEN t2.`nonnull0` > 0 THEN t2.`sum0` END AS DECIMAL(38, 2)),
      'avg',
      CAST(CASE
        WHEN t2.`nonnull1` > 0
        THEN t2.`sum1` / CAST(t2.`nonnull1` AS DECIMAL(32, 0))
      END AS DECIMAL(38, 16))
    )
    ELSE CAST(NULL AS STRUCT<`k`: INT, `count`: BIGINT, `sum`: DECIMAL(38, 2), `avg`: DECIMAL(38, 16)>)
  END AS `view`,
  NAMED_STRUCT(
    'g0',
    t2.`k`,
    '_count',
    t2.`_count`,
    'sum0',
    t2.`sum0`,
    'nonnull0',
    t2.`nonnull0`,
    'sum1',
    t2.`sum1`,
    'nonnull1',
    t2.`nonnull1`
  ) AS `agg0`
FROM (
  SELECT
    r1.`k`,
    COUNT(*) AS `_count`,
    CAST(COALESCE(SUM(r1.`m`), CAST('0' AS DECIMAL(38, 2))) AS DECIMAL(38, 2)) AS `sum0`,
    COUNT(r1.`m`) AS `nonnull0`,
    CAST(COALESCE(SUM(CAST(r1.`n` AS DECIMAL(38, 0))), CAST('0' AS DECIMAL(38, 0))) AS DECIMAL(38, 0)) AS `sum1`,
    COUNT(r1.`n`) AS `nonnull1`
  FROM rows__t_8efd86 AS r1
  GROUP BY
    r1.`k`
) AS t2;

-- PostgreSQL, what changed:
-- view
WITH q1 AS (
  SELECT
    d4."k",
    CAST(SUM(d4."_weight") AS BIGINT) AS "_count",
    CAST(COALESCE(SUM(d4."m" * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) AS "sum0",
    CAST(SUM(CASE WHEN d4."m" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) AS "nonnull0",
    CAST(COALESCE(SUM(CAST(d4."n" AS DECIMAL) * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) AS "sum1",
    CAST(SUM(CASE WHEN d4."n" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) AS "nonnull1"
  FROM delta__t_8efd86 AS d4
  GROUP BY
    d4."k"
  HAVING
    (
      CAST(SUM(d4."_weight") AS BIGINT) <> 0
    )
    OR (
      CAST(COALESCE(SUM(d4."m" * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) <> 0
    )
    OR (
      CAST(SUM(CASE WHEN d4."m" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) <> 0
    )
    OR (
      CAST(COALESCE(SUM(CAST(d4."n" AS DECIMAL) * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) <> 0
    )
    OR (
      CAST(SUM(CASE WHEN d4."n" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) <> 0
    )
)
SELECT
  g1."k",
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END AS "count",
  CAST(CASE
    WHEN CASE WHEN g1."__side" < 0 THEN g1."nonnull0__old" ELSE g1."nonnull0__new" END > 0
    THEN CASE WHEN g1."__side" < 0 THEN g1."sum0__old" ELSE g1."sum0__new" END
  END AS DECIMAL) AS "sum",
  CAST(CASE
    WHEN CASE WHEN g1."__side" < 0 THEN g1."nonnull1__old" ELSE g1."nonnull1__new" END > 0
    THEN CASE WHEN g1."__side" < 0 THEN g1."sum1__old" ELSE g1."sum1__new" END / CAST(CASE WHEN g1."__side" < 0 THEN g1."nonnull1__old" ELSE g1."nonnull1__new" END AS DECIMAL)
  END AS DECIMAL) AS "avg",
  g1."__side" AS "_weight"
FROM (
  SELECT
    p8."k",
    p8."_count__old",
    p8."_count__new",
    p8."sum0__old",
    p8."sum0__new",
    p8."nonnull0__old",
    p8."nonnull0__new",
    p8."sum1__old",
    p8."sum1__new",
    p8."nonnull1__old",
    p8."nonnull1__new",
    UNNEST(ARRAY[CAST('-1' AS BIGINT), CAST('1' AS BIGINT)]) AS "__side"
  FROM (
    SELECT
      u2."k",
      CAST(SUM(u2."_count__old") AS BIGINT) AS "_count__old",
      CAST(SUM(u2."_count__new") AS BIGINT) AS "_count__new",
      CAST(SUM(u2."sum0__old") AS DECIMAL) AS "sum0__old",
      CAST(SUM(u2."sum0__new") AS DECIMAL) AS "sum0__new",
      CAST(SUM(u2."nonnull0__old") AS BIGINT) AS "nonnull0__old",
      CAST(SUM(u2."nonnull0__new") AS BIGINT) AS "nonnull0__new",
      CAST(SUM(u2."sum1__old") AS DECIMAL) AS "sum1__old",
      CAST(SUM(u2."sum1__new") AS DECIMAL) AS "sum1__new",
      CAST(SUM(u2."nonnull1__old") AS BIGINT) AS "nonnull1__old",
      CAST(SUM(u2."nonnull1__new") AS BIGINT) AS "nonnull1__new"
    FROM (
      SELECT
        s3."g0" AS "k",
        s3."_count" * s3."_weight" AS "_count__old",
        s3."_count" * s3."_weight" AS "_count__new",
        s3."sum0" * s3."_weight" AS "sum0__old",
        s3."sum0" * s3."_weight" AS "sum0__new",
        s3."nonnull0" * s3."_weight" AS "nonnull0__old",
        s3."nonnull0" * s3."_weight" AS "nonnull0__new",
        s3."sum1" * s3."_weight" AS "sum1__old",
        s3."sum1" * s3."_weight" AS "sum1__new",
        s3."nonnull1" * s3."_weight" AS "nonnull1__old",
        s3."nonnull1" * s3."_weight" AS "nonnull1__new"
      FROM state__agg0_d11b76 AS s3
      WHERE
        EXISTS(
          SELECT
            1
          FROM q1 AS k6
          WHERE
            s3."g0" IS NOT DISTINCT FROM k6."k"
        )
      UNION ALL
      SELECT
        t7."k",
        CAST('0' AS BIGINT) AS "_count__old",
        t7."_count" AS "_count__new",
        CAST('0' AS DECIMAL) AS "sum0__old",
        t7."sum0" AS "sum0__new",
        CAST('0' AS BIGINT) AS "nonnull0__old",
        t7."nonnull0" AS "nonnull0__new",
        CAST('0' AS DECIMAL) AS "sum1__old",
        t7."sum1" AS "sum1__new",
        CAST('0' AS BIGINT) AS "nonnull1__old",
        t7."nonnull1" AS "nonnull1__new"
      FROM q1 AS t7
    ) AS u2
    GROUP BY
      u2."k"
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
      OR (
        CAST(SUM(u2."sum1__old") AS DECIMAL) <> CAST(SUM(u2."sum1__new") AS DECIMAL)
      )
      OR (
        CAST(SUM(u2."nonnull1__old") AS BIGINT) <> CAST(SUM(u2."nonnull1__new") AS BIGINT)
      )
  ) AS p8
) AS g1
WHERE
  (
    CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END > 0
  )
  AND (
    CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END > CAST(1 AS BIGINT)
  );
-- agg0
WITH q1 AS (
  SELECT
    d4."k",
    CAST(SUM(d4."_weight") AS BIGINT) AS "_count",
    CAST(COALESCE(SUM(d4."m" * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) AS "sum0",
    CAST(SUM(CASE WHEN d4."m" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) AS "nonnull0",
    CAST(COALESCE(SUM(CAST(d4."n" AS DECIMAL) * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) AS "sum1",
    CAST(SUM(CASE WHEN d4."n" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) AS "nonnull1"
  FROM delta__t_8efd86 AS d4
  GROUP BY
    d4."k"
  HAVING
    (
      CAST(SUM(d4."_weight") AS BIGINT) <> 0
    )
    OR (
      CAST(COALESCE(SUM(d4."m" * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) <> 0
    )
    OR (
      CAST(SUM(CASE WHEN d4."m" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) <> 0
    )
    OR (
      CAST(COALESCE(SUM(CAST(d4."n" AS DECIMAL) * d4."_weight"), CAST('0' AS DECIMAL)) AS DECIMAL) <> 0
    )
    OR (
      CAST(SUM(CASE WHEN d4."n" IS NULL THEN 0 ELSE d4."_weight" END) AS BIGINT) <> 0
    )
)
SELECT
  g1."k" AS "g0",
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END AS "_count",
  CASE WHEN g1."__side" < 0 THEN g1."sum0__old" ELSE g1."sum0__new" END AS "sum0",
  CASE WHEN g1."__side" < 0 THEN g1."nonnull0__old" ELSE g1."nonnull0__new" END AS "nonnull0",
  CASE WHEN g1."__side" < 0 THEN g1."sum1__old" ELSE g1."sum1__new" END AS "sum1",
  CASE WHEN g1."__side" < 0 THEN g1."nonnull1__old" ELSE g1."nonnull1__new" END AS "nonnull1",
  g1."__side" AS "_weight"
FROM (
  SELECT
    p8."k",
    p8."_count__old",
    p8."_count__new",
    p8."sum0__old",
    p8."sum0__new",
    p8."nonnull0__old",
    p8."nonnull0__new",
    p8."sum1__old",
    p8."sum1__new",
    p8."nonnull1__old",
    p8."nonnull1__new",
    UNNEST(ARRAY[CAST('-1' AS BIGINT), CAST('1' AS BIGINT)]) AS "__side"
  FROM (
    SELECT
      u2."k",
      CAST(SUM(u2."_count__old") AS BIGINT) AS "_count__old",
      CAST(SUM(u2."_count__new") AS BIGINT) AS "_count__new",
      CAST(SUM(u2."sum0__old") AS DECIMAL) AS "sum0__old",
      CAST(SUM(u2."sum0__new") AS DECIMAL) AS "sum0__new",
      CAST(SUM(u2."nonnull0__old") AS BIGINT) AS "nonnull0__old",
      CAST(SUM(u2."nonnull0__new") AS BIGINT) AS "nonnull0__new",
      CAST(SUM(u2."sum1__old") AS DECIMAL) AS "sum1__old",
      CAST(SUM(u2."sum1__new") AS DECIMAL) AS "sum1__new",
      CAST(SUM(u2."nonnull1__old") AS BIGINT) AS "nonnull1__old",
      CAST(SUM(u2."nonnull1__new") AS BIGINT) AS "nonnull1__new"
    FROM (
      SELECT
        s3."g0" AS "k",
        s3."_count" * s3."_weight" AS "_count__old",
        s3."_count" * s3."_weight" AS "_count__new",
        s3."sum0" * s3."_weight" AS "sum0__old",
        s3."sum0" * s3."_weight" AS "sum0__new",
        s3."nonnull0" * s3."_weight" AS "nonnull0__old",
        s3."nonnull0" * s3."_weight" AS "nonnull0__new",
        s3."sum1" * s3."_weight" AS "sum1__old",
        s3."sum1" * s3."_weight" AS "sum1__new",
        s3."nonnull1" * s3."_weight" AS "nonnull1__old",
        s3."nonnull1" * s3."_weight" AS "nonnull1__new"
      FROM state__agg0_d11b76 AS s3
      WHERE
        EXISTS(
          SELECT
            1
          FROM q1 AS k6
          WHERE
            s3."g0" IS NOT DISTINCT FROM k6."k"
        )
      UNION ALL
      SELECT
        t7."k",
        CAST('0' AS BIGINT) AS "_count__old",
        t7."_count" AS "_count__new",
        CAST('0' AS DECIMAL) AS "sum0__old",
        t7."sum0" AS "sum0__new",
        CAST('0' AS BIGINT) AS "nonnull0__old",
        t7."nonnull0" AS "nonnull0__new",
        CAST('0' AS DECIMAL) AS "sum1__old",
        t7."sum1" AS "sum1__new",
        CAST('0' AS BIGINT) AS "nonnull1__old",
        t7."nonnull1" AS "nonnull1__new"
      FROM q1 AS t7
    ) AS u2
    GROUP BY
      u2."k"
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
      OR (
        CAST(SUM(u2."sum1__old") AS DECIMAL) <> CAST(SUM(u2."sum1__new") AS DECIMAL)
      )
      OR (
        CAST(SUM(u2."nonnull1__old") AS BIGINT) <> CAST(SUM(u2."nonnull1__new") AS BIGINT)
      )
  ) AS p8
) AS g1
WHERE
  CASE WHEN g1."__side" < 0 THEN g1."_count__old" ELSE g1."_count__new" END > 0;
