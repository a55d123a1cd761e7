"""SQL text becomes one qualified query: every table is a known relation and every column says which one it is of.

Names fold as in PostgreSQL (unquoted ones to lower case). PostgreSQL checks the query against twins of the tables
before it is qualified, so its words are what a person reads when something is wrong.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import OptimizeError, ParseError, SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from penstock.errors import InvalidQuery, NotYet, UnsupportedQuery
from penstock.parsing import parse
from penstock.views.algebra import Relation
from penstock.views.aliases import unique_aliases
from penstock.views.arrows import arrows_are_json
from penstock.views.functions_in_from import is_function, open_rows_from, replace_functions
from penstock.views.named_windows import inline_windows
from penstock.views.parentheses import list_joins, open_parentheses
from penstock.views.refuse import refuse
from penstock.views.shorthand import ask_in_where, write_out
from penstock.views.spelling import plainly_spelled
from penstock.views.typer import Described, Typer, twin

Resolver = Callable[[tuple[str, ...]], Relation]


@dataclass(frozen=True)
class Query:
    """A qualified tree, the relations its tables (`_r0`, …) stand for, and the columns PostgreSQL says it gives."""

    tree: exp.Expr
    relations: Mapping[str, Relation]
    columns: tuple[Described, ...]


def parse_query(sql: str, *, dialect: str, resolve: Resolver, typer: Typer) -> Query:
    if dialect == "spark":
        raise NotYet("a view in Spark SQL", hint="Write it in PostgreSQL's SQL (dialect='postgres').")
    if dialect != "postgres":
        raise InvalidQuery(f"unknown dialect {dialect!r}", hint="Use 'postgres'.")
    tree = normalize_identifiers(arrows_are_json(_one_query(sql)), dialect="postgres")
    if not _is_limited(tree):
        tree.set("order", None)  # rows of a table have no order
    plainly_spelled(tree)
    write_out(tree)
    open_rows_from(tree)
    open_parentheses(tree)
    ask_in_where(tree)
    refuse(tree)
    inline_windows(tree)
    relations = _name_relations(tree, resolve)
    _name_columns(tree, sql)
    columns = _checked(tree, relations, typer)
    list_joins(tree)
    replace_functions(tree, {name for relation in relations.values() for name in relation.schema.names})
    return Query(_qualified(tree, relations), relations, columns)


def _is_limited(tree: exp.Expr) -> bool:
    once = tree.args.get("distinct")
    return bool(
        tree.args.get("limit") or tree.args.get("offset") or (isinstance(once, exp.Expr) and once.args.get("on"))
    )


def _one_query(sql: str) -> exp.Expr:
    try:
        statements = parse(sql)
    except ParseError as error:
        raise _syntax_error(error) from None
    except SqlglotError as error:
        raise InvalidQuery(f"the query cannot be read: {error}", hint="Check quotes and comments.") from None
    if len(statements) != 1:
        raise InvalidQuery(f"expected one query, found {len(statements)}", hint="A view is one SELECT.")
    tree = statements[0]
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    if not isinstance(tree, exp.Query):
        raise InvalidQuery(f"a view is a SELECT, not {tree.key.upper()}", hint="Give the query alone.")
    return tree


def _syntax_error(error: ParseError) -> InvalidQuery:
    first = error.errors[0] if error.errors else {}
    line, column, near = first.get("line"), first.get("col"), first.get("highlight")
    where = f" at line {line}, column {column}" if line else ""
    return InvalidQuery(
        f"syntax error{where}" + (f" near {near!r}" if near else ""),
        hint=f"{first.get('description') or 'The query does not parse'}. Queries are PostgreSQL SQL.",
    )


def _name_relations(tree: exp.Expr, resolve: Resolver) -> dict[str, Relation]:
    """Give each table of the tree a plain name (`_r0`, …), keeping what it was called as its alias."""
    relations: dict[str, Relation] = {}
    names: dict[str, str] = {}
    root = build_scope(tree)
    if root is None:
        raise InvalidQuery("the query has no SELECT", hint="A view is one SELECT.")
    for table in [table for scope in root.traverse() for table in _base_tables(scope)]:
        if is_function(table):
            continue
        relation = resolve(tuple(part.name for part in table.parts))
        name = names.setdefault(relation.name, f"_r{len(names)}")
        relations[name] = relation
        called = table.alias or table.name
        listed = [one.name for one in table.args["alias"].columns] if table.args.get("alias") else []
        table.set("db", None)
        table.set("catalog", None)
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(called, quoted=True)))
        if listed:
            _name_apart(table, listed, relation)
    for column in tree.find_all(exp.Column):  # schema.table.column: the table's alias is enough
        column.set("db", None)
        column.set("catalog", None)
    return relations


def _name_apart(table: exp.Table, listed: list[str], relation: Relation) -> None:
    """t AS x (a, b): a subquery that gives the columns their names."""
    own = relation.schema.names
    if len(listed) > len(own):
        raise InvalidQuery(f"{relation.name} has {len(own)} columns, {len(listed)} are named", hint="Name fewer.")
    items = [
        exp.alias_(exp.column(name, table=table.alias, quoted=True), new, quoted=True)
        for name, new in zip(own, [*listed, *own[len(listed) :]], strict=True)
    ]
    alias, joins = table.args["alias"].copy(), table.args.get("joins")
    table.set("joins", None)
    inner = exp.Select(expressions=items, from_=exp.From(this=table.copy()))
    table.replace(exp.Subquery(this=inner, alias=alias, joins=joins))


def _name_columns(tree: exp.Expr, sql: str) -> None:
    """Give unnamed results of functions the name PostgreSQL gives them: sum, count, case."""
    for select in tree.find_all(exp.Select):
        for item in list(select.expressions):
            if isinstance(item, exp.Case):
                item.replace(exp.alias_(item.copy(), "case"))
            elif isinstance(item, _CALLS) and not isinstance(item, (exp.Cast, exp.Connector)):
                item.replace(exp.alias_(item.copy(), _function_name(item, sql), quoted=True))


_CALLS = (exp.Func, exp.Filter, exp.WithinGroup, exp.Window)


def _function_name(item: exp.Expr, sql: str) -> str:
    """As it was written, where the parser tells; it has one node for var_samp and variance."""
    while isinstance(item, (exp.Filter, exp.WithinGroup, exp.Window)):
        item = item.this
    if "start" in item.meta:
        return sql[item.meta["start"] : item.meta["end"] + 1].lower()
    written = item.sql(dialect="postgres").partition("(")[0].lower()
    return "btrim" if written == "trim" else written


def _base_tables(scope: Scope) -> list[exp.Table]:
    return [
        table for table in scope.tables
        if table.args.get("db") or table.name not in scope.cte_sources
    ]  # fmt: skip


def _checked(tree: exp.Expr, relations: Mapping[str, Relation], typer: Typer) -> tuple[Described, ...]:
    stand_in = with_twins(tree, relations)
    try:
        columns = typer.describe(stand_in.sql(dialect="postgres"))
    except InvalidQuery as error:
        raise InvalidQuery(error.message, hint=error.hint or _near(error.message, relations)) from None
    seen = [column.name for column in columns]
    doubled = sorted({name for name in seen if seen.count(name) > 1})
    if doubled:
        raise InvalidQuery(f'column "{doubled[0]}" is there more than once', hint="Name the columns apart with AS.")
    if not columns:
        raise InvalidQuery("the query gives no columns", hint="Select at least one.")
    return columns


def with_twins(tree: exp.Expr, relations: Mapping[str, Relation]) -> exp.Expr:
    """The same query over stand-ins that hold no rows of anybody."""

    def stand_in(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table) and not node.args.get("db") and node.name in relations:
            schema = relations[node.name].schema
            found = twin(node.alias, [(column.name, column.pg) for column in schema.columns])
            found.set("joins", [join.transform(stand_in) for join in node.args.get("joins") or []])
            return found
        return node

    return tree.copy().transform(stand_in)


def _near(message: str, relations: Mapping[str, Relation]) -> str:
    known = sorted({name for relation in relations.values() for name in relation.schema.names})
    missing = re.search(r'column "?([^"\s]+)"? does not exist', message)
    close = difflib.get_close_matches(missing[1].split(".")[-1], known, n=3) if missing else []
    if close:
        return f"Did you mean {', '.join(close)}?"
    return f"Columns of the tables it names: {', '.join(known)}." if missing else "The message is PostgreSQL's."


def _qualified(tree: exp.Expr, relations: Mapping[str, Relation]) -> exp.Expr:
    schema: dict[str, object] = {
        name: dict.fromkeys(relation.schema.names, "text") for name, relation in relations.items()
    }
    try:
        found = qualify(tree.copy(), dialect="postgres", schema=schema, quote_identifiers=False, identify=True)
    except OptimizeError as error:
        raise UnsupportedQuery(
            f"the query's names cannot be resolved: {error}", hint="Qualify every column with its table's alias."
        ) from None
    results = _result_keys(found)
    unique_aliases(found)
    for key, item in results:
        key.replace(item.unalias().copy())
    return found


def _result_keys(tree: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Keys of GROUP BY with subqueries that are results too, and those: the tables inside are one and the same there,
    and must stay so when they are named apart."""
    return [
        (key, item)
        for select in tree.find_all(exp.Select)
        if select.args.get("group") is not None
        for key in select.args["group"].expressions
        if key.find(exp.Query)
        for item in select.expressions
        if item.unalias() == key
    ]
