-- view union_all
--   π project k = "k_3", s = "s_3"
--     ∪ union all
--       π project k_3 = "u_k", s_3 = "u_s"
--         scan u (k, s)
--       π project k_3 = "w_k", s_3 = "w_s"
--         scan w (k, s)
-- key: unknown
-- when u, w changes:
--   Δ scan(R) = changes of R
--   Δ π(R) = π(ΔR)
--   Δ (L ∪ R) = ΔL + ΔR
--   reads delta of u
--   reads delta of w

-- Spark, what changed:
SELECT
  u3.`_weight`,
  NAMED_STRUCT('k', u3.`k_3`, 's', u3.`s_3`) AS `view`
FROM (
  SELECT
    d1.`k` AS `k_3`,
    d1.`s` AS `s_3`,
    d1.`_weight`
  FROM delta__u_51e698 AS d1
  UNION ALL
  SELECT
    d2.`k` AS `k_3`,
    d2.`s` AS `s_3`,
    d2.`_weight`
  FROM delta__w_aff024 AS d2
) AS u3;

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT('k', u3.`k_3`, 's', u3.`s_3`) AS `view`
FROM (
  SELECT
    r1.`k` AS `k_3`,
    r1.`s` AS `s_3`
  FROM rows__u_51e698 AS r1
  UNION ALL
  SELECT
    r2.`k` AS `k_3`,
    r2.`s` AS `s_3`
  FROM rows__w_aff024 AS r2
) AS u3;

-- PostgreSQL, what changed:
-- view
SELECT
  u3."k_3" AS "k",
  u3."s_3" AS "s",
  u3."_weight"
FROM (
  SELECT
    d1."k" AS "k_3",
    d1."s" AS "s_3",
    d1."_weight"
  FROM delta__u_51e698 AS d1
  UNION ALL
  SELECT
    d2."k" AS "k_3",
    d2."s" AS "s_3",
    d2."_weight"
  FROM delta__w_aff024 AS d2
) AS u3;
