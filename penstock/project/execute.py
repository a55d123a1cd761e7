"""A plan carried out: every step is one transaction, so whatever interrupts it, the next plan has what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from penstock.catalog import projects
from penstock.failpoint import hit
from penstock.project.files import Definition
from penstock.project.plan import Kind, Plan, Step

if TYPE_CHECKING:
    from penstock.session import Session


def execute(ps: Session, plan: Plan, progress: Callable[[Step], None] | None = None) -> None:
    for step in plan.steps:
        if progress is not None and step in plan.work:
            progress(step)
        _do(ps, step, plan.project)
        hit("project.after_step")


def _do(ps: Session, step: Step, project: str) -> None:
    match step.kind:
        case Kind.LEAVE:
            return
        case Kind.DROP:
            ps.drop_stream_table(step.name)
            projects.forget(ps.catalog, step.name)
            return
        case Kind.CREATE:
            one = _definition(step)
            ps.create_stream_table(one.name, one.query, **one.settings)
        case Kind.ALTER | Kind.REINITIALIZE | Kind.REBUILD:
            one = _definition(step)
            ps.replace_stream_table(one.name, one.query, **one.settings)
        case Kind.KEEP:
            one = _definition(step)
        case _:
            assert_never(step.kind)
    if one.publish is not None:
        ps.set_publishing(one.name, one.publish)
    projects.own(ps.catalog, one.name, project, one.path)


def _definition(step: Step) -> Definition:
    assert step.definition is not None
    return step.definition
