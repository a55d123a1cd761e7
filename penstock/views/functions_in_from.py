"""A function in FROM, as the parser has it, becomes a subquery of its columns that carries the call.

`jsonb_each(t.d) WITH ORDINALITY AS e (k)` is qualified as `LATERAL (SELECT NULL AS k, NULL AS value, NULL AS ordinality
WHERE _from('jsonb_each', true, t.d)) AS e`: names inside and outside resolve like those of any lateral subquery, and
`call_of` finds the call again when the query is lowered.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import UnsupportedQuery

CALL = "_from"
ORDINALITY = "ordinality"

# What PostgreSQL calls their columns; none: as the function's alias.
COLUMNS: dict[str, tuple[str, ...]] = {
    "unnest": (),
    "generate_series": (),
    "jsonb_object_keys": (),
    "jsonb_array_elements": ("value",),
    "jsonb_array_elements_text": ("value",),
    "jsonb_each": ("key", "value"),
    "jsonb_each_text": ("key", "value"),
    "jsonb_to_record": (),
    "jsonb_to_recordset": (),
}
RECORDS = ("jsonb_to_record", "jsonb_to_recordset")  # their columns are defined where they are called


@dataclass(frozen=True)
class FunctionCall:
    """A call in FROM; `columns` are its names there, the last the row's number where `numbered`; `fields` are the names
    and types of the columns that a call defines."""

    name: str
    args: tuple[exp.Expr, ...]
    numbered: bool
    columns: tuple[str, ...] = ()
    alias: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    def sql(self) -> str:
        """The call itself, as f."""
        args = ", ".join(arg.sql(dialect="postgres") for arg in self.args)
        number = " WITH ORDINALITY" if self.numbered else ""
        quoted = (f"{exp.to_identifier(name, quoted=True).sql('postgres')} {kind}" for name, kind in self.fields)
        listed = f" ({', '.join(quoted)})" if self.fields else ""
        return f"{self.name}({args}){number} AS f{listed}"


def is_function(source: exp.Expr) -> bool:
    if isinstance(source, exp.Lateral):
        return not isinstance(source.this, exp.Subquery)
    return isinstance(source, exp.Unnest) or (isinstance(source, exp.Table) and not _is_name(source.this))


def _is_name(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Identifier)


def replace_functions(tree: exp.Expr, known: Collection[str]) -> None:
    """In place, VALUES that read what is left of them too; `known` are the names of all columns of the tables: any
    other name that is a function's alias means its value."""
    for select in list(tree.find_all(exp.Select)):
        start = select.args.get("from_")
        for join in select.args.get("joins") or []:
            join.set("this", _listed_values(join.this))
        if start is not None and is_function(start.this):
            start.set("this", _subquery(start.this, select, known))
        for join in select.args.get("joins") or []:
            if is_function(join.this):
                found = _subquery(join.this, select, known)
                alias = found.args["alias"].pop()
                join.set("this", exp.Lateral(this=found, alias=alias))


def _listed_values(source: exp.Expr) -> exp.Expr:
    """LATERAL (VALUES (a, 1), (b, 2)) AS x (n, m) is unnest(ARRAY[a, b], ARRAY[1, 2]) AS x (n, m)."""
    inner = source.this if isinstance(source, exp.Lateral) else None
    if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Values):
        return source
    rows = [row.expressions for row in inner.this.expressions]
    alias = source.args["alias"].copy()
    every = [f"column{number + 1}" for number in range(len(rows[0]))]
    named = [*(one.name for one in alias.columns), *every[len(alias.columns) :]]
    alias.set("columns", [exp.to_identifier(name, quoted=True) for name in named])
    arrays = [exp.Array(expressions=[cell.copy() for cell in column]) for column in zip(*rows, strict=True)]
    return exp.Unnest(expressions=arrays, alias=alias)


def _subquery(source: exp.Expr, select: exp.Select, known: Collection[str]) -> exp.Subquery:
    call = _read(source)
    if len(call.columns) - call.numbered < 2 and not call.fields:
        _name_values(select, call, known)
    columns = [exp.alias_(exp.Null(), name, quoted=True) for name in call.columns]
    args = [arg.copy() for arg in call.args]
    fields = exp.Tuple(expressions=[exp.Literal.string(part) for field in call.fields for part in field])
    marked = exp.Anonymous(
        this=CALL, expressions=[exp.Literal.string(call.name), exp.Boolean(this=call.numbered), fields, *args]
    )
    inner = exp.Select(expressions=columns, where=exp.Where(this=marked))
    return exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(call.alias, quoted=True)))


def _name_values(select: exp.Select, call: FunctionCall, known: Collection[str]) -> None:
    """`e` alone is the value that the function e gives."""
    if call.alias in known or call.alias == call.columns[0]:
        return
    for column in list(select.find_all(exp.Column)):
        if column.name == call.alias and not column.table:
            column.set("this", exp.to_identifier(call.columns[0], quoted=True))
            column.set("table", exp.to_identifier(call.alias, quoted=True))
            if isinstance(column.parent, exp.Select):
                column.replace(exp.alias_(column.copy(), call.alias, quoted=True))


def _read(source: exp.Expr) -> FunctionCall:
    called = source if isinstance(source, exp.Unnest) else source.this
    inner = called if isinstance(called, exp.Unnest) else source
    numbered = bool(source.args.get("ordinality") or inner.args.get("offset"))
    name, args = _name_and_arguments(called)
    given = source.args.get("alias")
    alias = given.name if given is not None and given.name else name
    listed = list(given.columns) if given is not None else []
    if isinstance(inner.args.get("offset"), exp.Identifier):
        listed.append(inner.args["offset"])  # the parser takes the last of the names for the number's
    if name in RECORDS:
        return _record(FunctionCall(name, args, numbered, alias=alias), listed)
    if any(not isinstance(one, exp.Identifier) for one in listed):
        raise UnsupportedQuery(f"{name}() with a column definition list is no SQL", hint="List the names alone.")
    own = COLUMNS[name] or (alias,) * (len(args) if name == "unnest" else 1)
    names = [*own, *([ORDINALITY] if numbered else [])]
    columns = (*(one.name for one in listed), *names[len(listed) :])
    if len(set(columns)) < len(columns):
        raise UnsupportedQuery("unnest() of several arrays needs names for its columns", hint="AS x (a, b)")
    return FunctionCall(name, args, numbered, columns, alias)


def _record(call: FunctionCall, listed: list[exp.Expr]) -> FunctionCall:
    """AS x (a int, b text)"""
    fields = tuple((one.name, one.args["kind"].sql("postgres")) for one in listed if isinstance(one, exp.ColumnDef))
    if call.numbered or len(fields) < len(listed) or not fields:
        raise UnsupportedQuery(
            f"{call.name}() needs a column definition list, and no WITH ORDINALITY", hint="AS x (a int, b text)"
        )
    return replace(call, columns=tuple(name for name, _ in fields), fields=fields)


def open_rows_from(tree: exp.Expr) -> None:
    """ROWS FROM (f()) is f(); in place."""
    for source in list(tree.find_all(exp.Table)):
        listed = source.args.get("rows_from")
        if not listed:
            continue
        if len(listed) > 1:
            raise UnsupportedQuery(
                "ROWS FROM of several functions is not supported in a view",
                hint="unnest() takes several arrays; join others by WITH ORDINALITY.",
            )
        source.replace(_only(listed[0], source))


def _only(called: exp.Expr, source: exp.Table) -> exp.Expr:
    given, defined = source.args.get("alias"), called.args.get("alias")
    if defined is not None and defined.columns:
        given = exp.TableAlias(this=given.this if given is not None else None, columns=defined.columns)
    called.set("alias", given)
    if isinstance(called, exp.Unnest):
        named = list(given.columns) if given is not None else []
        last = named.pop() if len(named) > len(called.expressions) else True
        called.set("offset", last if source.args.get("ordinality") else None)
        if given is not None:
            given.set("columns", named)
    else:
        called.set("ordinality", source.args.get("ordinality"))
    return called


def _name_and_arguments(called: exp.Expr) -> tuple[str, tuple[exp.Expr, ...]]:
    if isinstance(called, exp.Unnest):
        return "unnest", tuple(called.expressions)
    if isinstance(called, (exp.ExplodingGenerateSeries, exp.GenerateSeries)):
        given = (called.args.get(part) for part in ("start", "end", "step"))
        return "generate_series", tuple(arg for arg in given if arg is not None)
    name = called.name.lower() if isinstance(called, exp.Anonymous) else type(called).__name__.lower()
    if name in ("json_to_record", "json_to_recordset"):
        raise UnsupportedQuery(
            f"{name}() is not supported in a view", hint=f"Use {name.replace('json', 'jsonb')}() of jsonb."
        )
    if name not in COLUMNS:
        raise UnsupportedQuery(
            f"function {name}() in FROM is not supported in a view yet",
            hint=f"Supported: {', '.join(sorted(COLUMNS))}.",
        )
    return name, tuple(called.expressions)


def call_of(source: exp.Expr) -> FunctionCall | None:
    """The call that a qualified source stands for."""
    inner = source.this if isinstance(source, exp.Lateral) else source
    if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
        return None
    where = inner.this.args.get("where")
    marked = where.this if where is not None else None
    if not isinstance(marked, exp.Anonymous) or marked.name != CALL:
        return None
    name, numbered, told, *args = marked.expressions
    columns = tuple(item.alias_or_name for item in inner.this.expressions)
    parts = [part.name for part in told.expressions]
    fields = tuple(zip(parts[0::2], parts[1::2], strict=True))
    return FunctionCall(name.name, tuple(args), bool(numbered.this), columns, source.alias, fields)
