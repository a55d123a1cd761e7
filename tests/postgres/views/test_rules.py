"""Every rule against recompute: what is stored plus the delta is what PostgreSQL computes, round after round."""

from __future__ import annotations

from random import Random

import pytest
from postgres.views.maintained import Inputs, Maintained
from postgres.views.queries import TEMPLATES
from postgres.views.workload import Workload

from penstock.views.rules.aggregate import MANY_GROUPS


def follow(maintained: Maintained, random: Random, rounds: int, *, exact: bool = True) -> None:
    inputs = maintained.inputs
    inputs.clear()
    workload = Workload(inputs, random)
    if random.random() < 0.7:
        workload.round(24)
    maintained.start()
    for _ in range(rounds):
        changed = workload.round(8)
        sizes = {name: random.randint(0, 9) for name in inputs.relations}
        sizes |= {state.name: random.choice([10, MANY_GROUPS]) for state in maintained.view.states}
        maintained.refresh(changed, sizes if random.random() < 0.7 else None)
        maintained.check()
    if exact:
        maintained.check_all()


@pytest.mark.matrix
@pytest.mark.parametrize("sql", TEMPLATES)
def test_templates(inputs: Inputs, sql: str) -> None:
    """Longer than in `test_reach.py`, which follows them all too."""
    maintained = Maintained(inputs, sql)
    for seed in range(3):
        follow(maintained, Random(seed), rounds=4)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM u",
        "SELECT id, f, row_number() OVER () AS r, lag(s) OVER (ORDER BY k) AS g FROM t",
        "SELECT k, n, sum(n) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) AS t FROM u",
        "SELECT f, s FROM t ORDER BY f LIMIT 3",
        "SELECT DISTINCT ON (k) k, n, s FROM u ORDER BY k",
        "SELECT t.k, u.s FROM t JOIN u ON u.k = t.k LIMIT 4",
    ],
)
def test_equal_rows_are_put_into_one_order(inputs: Inputs, sql: str) -> None:
    """PostgreSQL may answer any of several ways: what is kept is what would be computed now, and never half of each."""
    maintained = Maintained(inputs, sql)
    maintained.check = maintained.check_stored  # type: ignore[method-assign]
    for seed in range(2):
        follow(maintained, Random(seed), rounds=4, exact=False)
