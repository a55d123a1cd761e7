"""From findings to steps: what is done, in which order, and what is refused."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.project.compare import Finding, Here, steps
from penstock.project.files import Definition
from penstock.project.plan import Kind, Plan


def finding(name: str, kind: Kind, *reads: str) -> Finding:
    return Finding(Definition(name, "SELECT 1", f"{name}.sql", 1), kind, "why", reads)


def told(findings: list[Finding], here: Here, *, drop: bool = False) -> list[str]:
    return [f"{step.kind} {step.name}" for step in steps(findings, here, drop=drop)]


def test_inputs_come_first() -> None:
    found = [finding("a", Kind.CREATE, "b"), finding("b", Kind.CREATE, "c"), finding("c", Kind.CREATE, "t")]
    assert told(found, Here({})) == ["create c", "create b", "create a"]


def test_what_reads_a_rebuilt_one_is_dropped_before_and_made_again() -> None:
    here = Here({"a": ["t"], "b": ["a"], "c": ["b"], "other": ["t"]})
    found = [
        finding("a", Kind.REBUILD, "t"),
        finding("b", Kind.REINITIALIZE, "a"),
        finding("c", Kind.KEEP, "b"),
        finding("other", Kind.KEEP, "t"),
    ]
    planned = told(found, here)
    assert planned[:2] == ["drop c", "drop b"]
    assert [one for one in planned[2:] if "other" not in one] == ["rebuild a", "create b", "create c"]


def test_a_rebuilt_one_over_a_rebuilt_one_is_made_again() -> None:
    found = [finding("a", Kind.REBUILD, "t"), finding("b", Kind.REBUILD, "a")]
    assert told(found, Here({"a": ["t"], "b": ["a"]})) == ["drop b", "rebuild a", "create b"]


def test_one_that_is_not_in_the_folder_stands_in_the_way_of_a_rebuild() -> None:
    here = Here({"a": ["t"], "b": ["a"]}, ours=["a", "b"])
    with pytest.raises(ConfigError, match=r"a\.sql:1: stream table a gets other columns .* and b, which reads it"):
        told([finding("a", Kind.REBUILD, "t")], here)
    assert told([finding("a", Kind.REBUILD, "t")], here, drop=True) == ["drop b", "rebuild a"]


def test_only_what_came_from_this_project_is_dropped_and_only_if_asked() -> None:
    here = Here({"a": ["t"], "b": ["a"], "by_hand": ["t"]}, ours=["a", "b", "gone_long_ago"])
    assert told([], here) == ["leave b", "leave a"]
    assert told([], here, drop=True) == ["drop b", "drop a"]


def test_one_that_is_still_read_is_not_dropped() -> None:
    here = Here({"a": ["t"], "by_hand": ["a"]}, ours=["a"])
    with pytest.raises(ConfigError, match="a has no file any more, and by_hand reads it"):
        told([], here, drop=True)
    changed = Here({"a": ["t"], "b": ["a"]}, ours=["a", "b"])
    assert told([finding("b", Kind.REINITIALIZE, "t")], changed, drop=True) == ["reinitialize b", "drop a"]


def test_a_plan_without_work_says_so() -> None:
    found = steps([finding("a", Kind.KEEP, "t")], Here({"a": ["t"]}), drop=False)
    plan = Plan("shop", tuple(found), ())
    assert plan.nothing
    assert str(plan) == "Project shop: 1 to keep."
