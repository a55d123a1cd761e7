"""Statements carried out on a session, one function each; what may be asked in Python is asked there."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from penstock.sql.answer import Answer
from penstock.sql.run import looking, sources, stream_tables
from penstock.sql.statements import (
    AlterStreamTable,
    CreateSource,
    CreateStreamTable,
    Describe,
    DescribeConnector,
    DropSource,
    DropStreamTable,
    Explain,
    RefreshStreamTable,
    Select,
    Show,
    ShowCreate,
    Statement,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.capture.home_copy import Progress
    from penstock.refresh.moments import Moment
    from penstock.session import Session


def run(
    ps: Session, statement: Statement, at: Moment | None = None, progress: Progress | None = None
) -> Answer | DataFrame:
    """Carry out one statement; `at` is for a SELECT, `progress` for what copies rows."""
    match statement:
        case Select():
            return looking.select(ps, statement, at)
        case CreateStreamTable():
            return stream_tables.create(ps, statement)
        case AlterStreamTable():
            return stream_tables.alter(ps, statement)
        case DropStreamTable():
            return stream_tables.drop(ps, statement)
        case RefreshStreamTable():
            return stream_tables.refresh(ps, statement)
        case CreateSource():
            return sources.create(ps, statement, progress)
        case DropSource():
            return sources.drop(ps, statement)
        case DescribeConnector():
            return sources.describe_connector(statement)
        case Show():
            return looking.show(ps, statement)
        case ShowCreate():
            return looking.show_create(ps, statement)
        case Describe():
            return looking.describe(ps, statement)
        case Explain():
            return looking.explain(ps, statement)
        case _:
            assert_never(statement)
