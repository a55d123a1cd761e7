-- view filter_project
--   π project id = "t_id", next = ("t_k" + 1)
--     σ filter ("t_n" > CAST(0 AS BIGINT)) AND (NOT ("t_s" IS NULL))
--       scan t (id, k, n, s)
-- key: id
-- when t changes:
--   Δ scan(R) = changes of R
--   Δ σ(R) = σ(ΔR)
--   Δ π(R) = π(ΔR)
--   reads delta of t

-- Spark, what changed:
SELECT
  d1.`_weight`,
  NAMED_STRUCT('id', d1.`id`, 'next', d1.`k` + 1) AS `view`
FROM delta__t_8efd86 AS d1
WHERE
  (
    d1.`n` > CAST(0 AS BIGINT)
  ) AND (
    NOT (
      d1.`s` IS NULL
    )
  );

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT('id', r1.`id`, 'next', r1.`k` + 1) AS `view`
FROM rows__t_8efd86 AS r1
WHERE
  (
    r1.`n` > CAST(0 AS BIGINT)
  ) AND (
    NOT (
      r1.`s` IS NULL
    )
  );

-- PostgreSQL, what changed:
-- view
SELECT
  d1."id",
  d1."k" + 1 AS "next",
  d1."_weight"
FROM delta__t_8efd86 AS d1
WHERE
  (
    d1."n" > CAST(0 AS BIGINT)
  ) AND (
    NOT (
      d1."s" IS NULL
    )
  );
