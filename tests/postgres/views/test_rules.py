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


@pytest.mark.parametrize("sql", TEMPLATES)
def test_templates(inputs: Inputs, sql: str) -> None:
    maintained = Maintained(inputs, sql)
    for seed in range(3):
        follow(maintained, Random(seed), rounds=4)
