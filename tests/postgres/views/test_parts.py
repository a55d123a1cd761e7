"""What a program uses again and again, computed once before it, changes nothing of what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres.views.grammar import REFUSALS, Grammar
from postgres.views.maintained import Inputs, Maintained
from postgres.views.queries import TABLES, TEMPLATES
from postgres.views.test_rules import follow

from penstock.errors import UnsupportedQuery
from penstock.relation.schema import Column
from penstock.views import PostgresTyper, Program, Read, compile_view, delta, placeholder
from penstock.views.algebra import Leaf, Node, UnionAll, inputs, walk
from penstock.views.expr import INT4
from penstock.views.parts import MOST, comes_of_changes, shared_parts


class InParts(Maintained):
    """Maintained by programs that are cut wherever that saves anything; `parts` counts the cuts."""

    parts = 0

    def refresh(self, changed: frozenset[str], sizes: Mapping[str, int] | None = None) -> None:
        whole = delta(self.view, changed, "postgres", sizes, growing=self.inputs.growing & changed)
        program = whole.parted(most=4, in_memory=True)
        for part in program.parts:
            InParts.parts += 1
            table = placeholder(part.read)
            self.connection.execute(f"DROP TABLE IF EXISTS {table}; CREATE TEMP TABLE {table} AS {part.sql}")
        self.store({name: self.connection.execute(out.sql).fetchall() for name, out in program.outputs.items()})


@pytest.mark.parametrize("sql", TEMPLATES[::3])
def test_templates(inputs: Inputs, sql: str) -> None:
    follow(InParts(inputs, sql), Random(7), rounds=3)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_random_queries(inputs: Inputs, seed: int) -> None:
    random = Random(seed)
    sql = Grammar(random).query(random.choice([2, 3]))
    try:
        maintained = InParts(inputs, sql)
    except UnsupportedQuery as error:
        if not any(known in error.message for known in REFUSALS):
            raise
    else:
        follow(maintained, random, rounds=2)


def test_programs_were_cut(inputs: Inputs) -> None:
    """What the tests above compare is not the same twice; weighted rows and groups are both among the parts."""
    before = InParts.parts
    sql = "SELECT k, count(*) FROM (SELECT DISTINCT k, n FROM u) x WHERE n NOT IN (SELECT n FROM t) GROUP BY k"
    follow(InParts(inputs, sql), Random(1), rounds=3)
    assert InParts.parts > before + 3


# What is cut ----------------------------------------------------------------------------------------------------------

NESTED = """
    SELECT a.k, a.c, b.c AS d FROM (SELECT k, count(*) AS c FROM {0} GROUP BY k) a
    JOIN (SELECT k, max(n) AS c FROM {0} GROUP BY k) b ON a.k = b.k
    WHERE NOT EXISTS (SELECT 1 FROM {0} d WHERE d.k = a.k AND d.n <> b.c)
    AND EXISTS (SELECT 1 FROM {0} d WHERE d.k = a.k AND d.n > b.c)"""


def program(oracle: psycopg.Connection[Any], sql: str) -> Program:
    relations = {found.name: found for found in TABLES}
    view = compile_view("v", sql, resolve=lambda parts: relations[parts[-1]], typer=PostgresTyper(oracle))
    return delta(view, frozenset(view.used_columns))


def spelled_out(tree: Node) -> int:
    """How many operators there are if everything is written down where it is used."""
    return 1 + sum(spelled_out(child) for child in inputs(tree))


def test_small_programs_are_left_as_they_are(oracle: psycopg.Connection[Any]) -> None:
    found = program(oracle, "SELECT w.s, sum(t.m) FROM t JOIN w ON w.k = t.k GROUP BY w.s")
    assert found.parted() is found


def test_what_grows_by_a_factor_does_not_any_more(oracle: psycopg.Connection[Any]) -> None:
    whole = program(oracle, NESTED.format("u"))
    found = whole.parted()
    before = sum(spelled_out(output.tree) for output in whole.outputs.values())
    after = sum(spelled_out(tree) for tree in (*(p.tree for p in found.parts), found.outputs["view"].tree))
    assert before > MOST > after
    assert found.reads == whole.reads


def test_of_tables_that_are_scanned_only_what_the_changes_reach_is_kept(oracle: psycopg.Connection[Any]) -> None:
    whole = program(oracle, NESTED.format("u"))
    found = whole.parted(in_memory=False)
    assert found.parts
    assert all(comes_of_changes(part.tree) for part in found.parts if not reads_parts(part.tree))


def test_what_is_shared_is_looked_at_once() -> None:
    """Spelled out, this tree has 2 to the 200 leaves."""
    column = Column.of("a", INT4)
    for kind, few in (("delta", True), ("after", False)):
        tree: Node = Leaf(Read(kind, "t"), (("a", column),))
        for _ in range(200):
            tree = UnionAll((tree, tree))
        assert comes_of_changes(tree) is few
        parts, _ = shared_parts({"view": tree}, in_memory=False)
        assert parts


def reads_parts(tree: Node) -> bool:
    return any(isinstance(node, Leaf) and "part" in node.read.kind for node in walk(tree))


def test_parts_read_only_parts_before_them(oracle: psycopg.Connection[Any]) -> None:
    trees = {name: output.tree for name, output in program(oracle, NESTED.format("u")).outputs.items()}
    parts, left = shared_parts(trees, most=4)
    known = set[str]()
    for leaf, tree in [*parts, *((None, tree) for tree in left.values())]:
        read = {node.read.relation for node in walk(tree) if isinstance(node, Leaf) and "part" in node.read.kind}
        assert read <= known
        if leaf is not None:
            known.add(leaf.read.relation)
    assert len(known) > 2
