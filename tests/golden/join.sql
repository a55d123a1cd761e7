-- view join
--   π project id = "t_id", s = "u_s"
--     ⋈ join on ("t_k" = "u_k")
--       scan t (id, k)
--       σ filter ("u_n" > 1)
--         scan u (k, n, s)
-- key: unknown
-- when t, u changes:
--   Δ scan(R) = changes of R
--   Δ σ(R) = σ(ΔR)
--   Δ (L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR
--   Δ π(R) = π(ΔR)
--   reads after of t, where k in delta of u
--   reads before of u, where k in delta of t
--   reads delta of t
--   reads delta of u

-- Spark, what changed:
SELECT
  u5.`_weight`,
  NAMED_STRUCT('id', u5.`t_id`, 's', u5.`u_s`) AS `view`
FROM (
  SELECT /*+ BROADCAST(d1) */
    d1.`id` AS `t_id`,
    d1.`k` AS `t_k`,
    b2.`k` AS `u_k`,
    b2.`n` AS `u_n`,
    b2.`s` AS `u_s`,
    d1.`_weight` * b2.`_weight` AS `_weight`
  FROM delta__t_8efd86 AS d1
  JOIN before__u_51e698 AS b2
    ON d1.`k` = b2.`k`
  WHERE
    b2.`n` > 1
  UNION ALL
  SELECT /*+ BROADCAST(d3) */
    a4.`id` AS `t_id`,
    a4.`k` AS `t_k`,
    d3.`k` AS `u_k`,
    d3.`n` AS `u_n`,
    d3.`s` AS `u_s`,
    d3.`_weight` * a4.`_weight` AS `_weight`
  FROM delta__u_51e698 AS d3
  JOIN after__t_8efd86 AS a4
    ON a4.`k` = d3.`k`
  WHERE
    d3.`n` > 1
) AS u5;

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT('id', r1.`id`, 's', r2.`s`) AS `view`
FROM rows__t_8efd86 AS r1
JOIN rows__u_51e698 AS r2
  ON r1.`k` = r2.`k`
WHERE
  r2.`n` > 1;

-- PostgreSQL, what changed:
-- view
SELECT
  u5."t_id" AS "id",
  u5."u_s" AS "s",
  u5."_weight"
FROM (
  SELECT
    d1."id" AS "t_id",
    d1."k" AS "t_k",
    b2."k" AS "u_k",
    b2."n" AS "u_n",
    b2."s" AS "u_s",
    d1."_weight" * b2."_weight" AS "_weight"
  FROM delta__t_8efd86 AS d1
  JOIN before__u_51e698 AS b2
    ON d1."k" = b2."k"
  WHERE
    b2."n" > 1
  UNION ALL
  SELECT
    a4."id" AS "t_id",
    a4."k" AS "t_k",
    d3."k" AS "u_k",
    d3."n" AS "u_n",
    d3."s" AS "u_s",
    d3."_weight" * a4."_weight" AS "_weight"
  FROM delta__u_51e698 AS d3
  JOIN after__t_8efd86 AS a4
    ON a4."k" = d3."k"
  WHERE
    d3."n" > 1
) AS u5;
