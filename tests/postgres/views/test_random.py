"""Random queries of all operators follow random changes: as many in a test run as a minute allows, more in a soak.

A failure prints its seed: `PENSTOCK_SEED=… pytest tests/postgres/views/test_random.py` runs that batch alone.
"""

from __future__ import annotations

import os
import time
from random import Random

import pytest
from postgres.views.grammar import DEPTHS, REFUSALS, Grammar
from postgres.views.maintained import Beside, Inputs
from postgres.views.workload import Workload

from penstock.errors import UnsupportedQuery
from penstock.views.rules.aggregate import MANY_GROUPS

BATCH = 50
MOST_ROWS = 20_000  # of a result that is looked at: crossed with itself at depth 4 it may be anything
SEEDS = [int(os.environ["PENSTOCK_SEED"])] if "PENSTOCK_SEED" in os.environ else list(range(20))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries_follow(inputs: Inputs, seed: int) -> None:
    run(inputs, seed)


@pytest.mark.matrix
@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_soak_of_random_queries(inputs: Inputs) -> None:
    """20,000 queries from a seed that is never the same; it is printed."""
    first = time.time_ns() // 10**9 * 1000
    for seed in range(first, first + int(os.environ.get("PENSTOCK_SOAK", "20000")) // BATCH):
        print(f"PENSTOCK_SEED={seed}", flush=True)
        run(inputs, seed)


def run(inputs: Inputs, seed: int) -> None:
    random = Random(seed)
    inputs.clear()
    workload = Workload(inputs, random)
    if random.random() < 0.8:
        workload.round(24)
    views = made(inputs, Grammar(random), random)
    rounds = 2 if seed % 4 == 0 else 1
    for number in range(rounds):
        changed = workload.round(8)
        for view in views:
            sizes = {name: random.randint(0, 9) for name in inputs.relations}
            sizes |= {state.name: random.choice([10, MANY_GROUPS]) for state in view.view.states}
            try:
                view.follow(changed, sizes if random.random() < 0.7 else None, last=number == rounds - 1)
            except Exception as error:
                raise AssertionError(f"seed {seed}, round {number}: {view.sql}\n{error}") from error


def _is_large(inputs: Inputs, sql: str) -> bool:
    counted = f"SELECT count(*) FROM (SELECT 1 FROM ({sql}) q LIMIT {MOST_ROWS + 1}) r"
    return bool(inputs.connection.execute(counted).fetchall()[0][0] > MOST_ROWS)


def made(inputs: Inputs, grammar: Grammar, random: Random) -> list[Beside]:
    """Views that can be made; one that is refused for a known reason is replaced by another."""
    views: list[Beside] = []
    while len(views) < BATCH:
        sql = grammar.query(random.choice(DEPTHS))
        try:
            view = Beside(inputs, f"v{len(views)}", sql)
        except UnsupportedQuery as error:
            if not any(known in error.message for known in REFUSALS):
                raise AssertionError(f"{error.message}: {sql}") from error
            continue
        if _is_large(inputs, sql):
            continue
        view.start()
        views.append(view)
    return views
