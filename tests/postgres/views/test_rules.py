"""Every rule against recompute: what is stored plus the delta is what PostgreSQL computes, round after round."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres.views.maintained import Inputs, Maintained, Row
from postgres.views.queries import TEMPLATES, Grammar

from penstock.views.rules.aggregate import MANY_GROUPS


class Workload:
    """Random rows with few values, NULLs and duplicates; updates and deletes of rows that are there."""

    def __init__(self, inputs: Inputs, random: Random) -> None:
        self.inputs = inputs
        self.random = random
        self.ids = 0

    def round(self, size: int) -> frozenset[str]:
        """Change a random subset of the tables; the names of those that changed."""
        names = [name for name in self.inputs.relations if self.random.random() < 0.6]
        changes = {name: found for name in names if (found := self._changes(name, size))}
        self.inputs.apply(changes)
        return frozenset(changes)

    def _changes(self, name: str, size: int) -> list[tuple[Row, int]]:
        rows, found = list(self.inputs.rows[name]), list[tuple[Row, int]]()
        for _ in range(self.random.randint(0, size)):
            choice = self.random.random()
            if rows and choice < 0.5:
                old = rows.pop(self.random.randrange(len(rows)))
                found.append((old, -1))
                if choice < 0.25:
                    new = (old[0], *self._row(name)[1:])
                    rows.append(new)
                    found.append((new, 1))
            elif (row := self._row(name)) is not None and not self._taken(name, row, rows):
                rows.append(row)
                found.append((row, 1))
        return found

    def _row(self, name: str) -> Row:
        pick = self.random.choice
        small, text = [None, None, 0, 1, 1, 2], [None, "", "a", "b", "B", "é"]
        if name == "t":
            self.ids += 1
            return (self.ids, pick(small), pick([None, -1, 0, 5, 2**40]), pick([None, "0.00", "1.50", "-3.25", "9.99"]),
                    pick(text), pick([None, 0.1, 0.2, -0.0, 1e10, float("nan"), float("inf")]))  # fmt: skip
        if name == "u":
            return (pick(small), pick(small), pick(text))
        return (pick([0, 1, 2, 3, 4]), pick(text))

    def _taken(self, name: str, row: Row, rows: list[Row]) -> bool:
        return name == "w" and any(row[0] == other[0] for other in rows)


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


@pytest.mark.parametrize("examples", [60, pytest.param(600, marks=pytest.mark.matrix)])
def test_random_queries(inputs: Inputs, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 10**9))
    def follows(seed: int) -> None:
        random = Random(seed)
        follow(Maintained(inputs, Grammar(random).query()), random, rounds=3)

    follows()


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
    for seed in range(4):
        follow(maintained, Random(seed), rounds=4, exact=False)
