"""What a name means that is no relation here: a view of a source database, by its definition there.

The definition is taken when a stream table is made and stays as it was then; the tables it names are the source's.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.capture.connection import connect
from penstock.catalog import relations, sources
from penstock.catalog.relations import Relation
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.errors import AmbiguousName, NotFound
from penstock.parsing import parse_one

_VIEWS = """
    SELECT n.nspname, c.relname, pg_get_viewdef(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'v' AND c.relname = %s AND (%s = '' OR n.nspname = %s)
      AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    ORDER BY 1, 2
"""


class SourceViews:
    """Gives a name's definition, if it is a view of one of the sources, and keeps what it found in `found`.

    A source is asked only about names unknown here.
    """

    def __init__(self, catalog: Catalog, known: Sequence[Relation]) -> None:
        self._catalog = catalog
        self._known = known
        self.found: dict[str, str] = {}

    def __call__(self, parts: tuple[str, ...]) -> exp.Expr | None:
        name = ".".join(parts)
        try:
            relations.choose(self._known, name)
        except AmbiguousName:
            return None  # known, more than once: said when the query is compiled
        except NotFound:
            tree = _found(parts, sources.every(self._catalog))
            if tree is not None:
                self.found[name] = tree.sql(dialect="postgres")
            return tree
        return None


def _found(parts: tuple[str, ...], every: Sequence[Source]) -> exp.Expr | None:
    *before, view = parts
    schema = before[-1] if before else ""
    named = before[-2] if len(before) > 1 else None
    found = [
        (f"{source.name}.{row[0]}.{row[1]}", source, str(row[2]))
        for source in every
        if named in (None, source.name)
        for row in _ask(source, schema, view)
    ]
    if len(found) > 1:
        names = ", ".join(name for name, _, _ in found)
        raise AmbiguousName(f"{view!r} could be any of: {names}", hint="Write the name with its schema and source.")
    if not found:
        return None
    _, source, text = found[0]
    tree = parse_one(text)
    for table in tree.find_all(exp.Table):
        if table.args.get("db"):
            table.set("catalog", exp.to_identifier(source.name, quoted=True))
    return tree


def _ask(source: Source, schema: str, view: str) -> list[tuple[str, str, str]]:
    with connect(source.dsn) as connection:
        connection.execute("SET search_path = ''")  # so that the definition names tables with their schema
        return [(str(a), str(b), str(c)) for a, b, c in connection.execute(_VIEWS, (view, schema, schema)).fetchall()]
