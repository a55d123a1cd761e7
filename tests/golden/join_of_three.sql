-- view join_of_three
--   π project id = "t_id", s = "w_s", n = "u_n"
--     ⋈ join on ("w_k" = "t_k") AND ("u_k" = "w_k")
--       scan t (id, k)
--       scan w (k, s)
--       scan u (k, n)
-- key: unknown
-- when t, u, w changes:
--   Δ scan(R) = changes of R
--   Δ (L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR
--   Δ π(R) = π(ΔR)
--   reads after of t, where k in delta of u or k in delta of w
--   reads after of u, where k in delta of w
--   reads before of u, where k in delta of t
--   reads before of w, where k in delta of t or k in delta of u
--   reads delta of t
--   reads delta of u
--   reads delta of w

-- Spark, what changed:
SELECT
  u12.`_weight`,
  NAMED_STRUCT('id', u12.`t_id`, 's', u12.`w_s`, 'n', u12.`u_n`) AS `view`
FROM (
  SELECT /*+ BROADCAST(t4) */
    t4.`t_id`,
    t4.`t_k`,
    t4.`w_k`,
    t4.`w_s`,
    b3.`k` AS `u_k`,
    b3.`n` AS `u_n`,
    t4.`_weight` * b3.`_weight` AS `_weight`
  FROM (
    SELECT /*+ BROADCAST(d1) */
      d1.`id` AS `t_id`,
      d1.`k` AS `t_k`,
      b2.`k` AS `w_k`,
      b2.`s` AS `w_s`,
      d1.`_weight` * b2.`_weight` AS `_weight`
    FROM delta__t_8efd86 AS d1
    JOIN before__w_aff024 AS b2
      ON b2.`k` = d1.`k`
  ) AS t4
  JOIN before__u_51e698 AS b3
    ON b3.`k` = t4.`w_k`
  UNION ALL
  SELECT /*+ BROADCAST(t8) */
    a7.`id` AS `t_id`,
    a7.`k` AS `t_k`,
    t8.`w_k`,
    t8.`w_s`,
    t8.`u_k`,
    t8.`u_n`,
    t8.`_weight` * a7.`_weight` AS `_weight`
  FROM (
    SELECT /*+ BROADCAST(d5) */
      d5.`k` AS `u_k`,
      d5.`n` AS `u_n`,
      b6.`k` AS `w_k`,
      b6.`s` AS `w_s`,
      d5.`_weight` * b6.`_weight` AS `_weight`
    FROM delta__u_51e698 AS d5
    JOIN before__w_aff024 AS b6
      ON d5.`k` = b6.`k`
  ) AS t8
  JOIN after__t_8efd86 AS a7
    ON t8.`w_k` = a7.`k`
  UNION ALL
  SELECT /*+ BROADCAST(d9) */
    a10.`id` AS `t_id`,
    a10.`k` AS `t_k`,
    d9.`k` AS `w_k`,
    d9.`s` AS `w_s`,
    a11.`k` AS `u_k`,
    a11.`n` AS `u_n`,
    d9.`_weight` * a10.`_weight` * a11.`_weight` AS `_weight`
  FROM delta__w_aff024 AS d9
  JOIN after__t_8efd86 AS a10
    ON d9.`k` = a10.`k`
  JOIN after__u_51e698 AS a11
    ON a11.`k` = d9.`k`
) AS u12;

-- Spark, everything:
SELECT
  CAST('1' AS BIGINT) AS `_weight`,
  NAMED_STRUCT('id', r1.`id`, 's', r2.`s`, 'n', r3.`n`) AS `view`
FROM rows__t_8efd86 AS r1
JOIN rows__w_aff024 AS r2
  ON r2.`k` = r1.`k`
JOIN rows__u_51e698 AS r3
  ON r3.`k` = r2.`k`;

-- PostgreSQL, what changed:
-- view
SELECT
  u12."t_id" AS "id",
  u12."w_s" AS "s",
  u12."u_n" AS "n",
  u12."_weight"
FROM (
  SELECT
    t4."t_id",
    t4."t_k",
    t4."w_k",
    t4."w_s",
    b3."k" AS "u_k",
    b3."n" AS "u_n",
    t4."_weight" * b3."_weight" AS "_weight"
  FROM (
    SELECT
      d1."id" AS "t_id",
      d1."k" AS "t_k",
      b2."k" AS "w_k",
      b2."s" AS "w_s",
      d1."_weight" * b2."_weight" AS "_weight"
    FROM delta__t_8efd86 AS d1
    JOIN before__w_aff024 AS b2
      ON b2."k" = d1."k"
  ) AS t4
  JOIN before__u_51e698 AS b3
    ON b3."k" = t4."w_k"
  UNION ALL
  SELECT
    a7."id" AS "t_id",
    a7."k" AS "t_k",
    t8."w_k",
    t8."w_s",
    t8."u_k",
    t8."u_n",
    t8."_weight" * a7."_weight" AS "_weight"
  FROM (
    SELECT
      d5."k" AS "u_k",
      d5."n" AS "u_n",
      b6."k" AS "w_k",
      b6."s" AS "w_s",
      d5."_weight" * b6."_weight" AS "_weight"
    FROM delta__u_51e698 AS d5
    JOIN before__w_aff024 AS b6
      ON d5."k" = b6."k"
  ) AS t8
  JOIN after__t_8efd86 AS a7
    ON t8."w_k" = a7."k"
  UNION ALL
  SELECT
    a10."id" AS "t_id",
    a10."k" AS "t_k",
    d9."k" AS "w_k",
    d9."s" AS "w_s",
    a11."k" AS "u_k",
    a11."n" AS "u_n",
    d9."_weight" * a10."_weight" * a11."_weight" AS "_weight"
  FROM delta__w_aff024 AS d9
  JOIN after__t_8efd86 AS a10
    ON d9."k" = a10."k"
  JOIN after__u_51e698 AS a11
    ON a11."k" = d9."k"
) AS u12;
