"""Views kept fresh: SQL is parsed, lowered to a small algebra, differentiated by one rule per operator, and rendered.

view = compile_view("revenue", "SELECT …", resolve=…, typer=PostgresTyper(connection))
program = delta(view, frozenset({"shop.public.orders"}))     # or full(view)
program.outputs["view"].sql, program.reads, program.combined_sql()
"""

from penstock.views.algebra import Read, Relation
from penstock.views.compile import compile_view
from penstock.views.explain import explain
from penstock.views.one_join import TERM
from penstock.views.parse import Resolver
from penstock.views.program import Output, Program, delta, full, minds_growth
from penstock.views.reach import Match, Reach
from penstock.views.render import placeholder
from penstock.views.top_rows import First
from penstock.views.typer import Described, PostgresTyper, Typer
from penstock.views.view import OperatorState, View

__all__ = [
    "TERM", "Described", "First", "Match", "OperatorState", "Output", "PostgresTyper", "Program", "Reach", "Read",
    "Relation", "Resolver", "Typer", "View", "compile_view", "delta", "explain", "full", "minds_growth",
    "placeholder",
]  # fmt: skip
