"""From what a file says of a source to what has to be done: compared first, shown, then done; then nothing is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.capture import membership
from penstock.capture.config import SourceConfig
from penstock.capture.connection import connect
from penstock.capture.discover import discover, split_name
from penstock.capture.home_options import reader_options
from penstock.capture.source_file import SourceSpec
from penstock.catalog import sources
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.errors import ConfigError

# What the slot and the copies were made with.
_FIXED = ("publication_name", "partitions", "two_phase", "failover", "column_forms", "snapshot_mode")
_SELECTIONS = ("publication_column_list", "publication_row_filter", "sync_modes")


@dataclass(frozen=True)
class SourcePlan:
    """What applying a file does to one source: `steps` in words, and the tables to select and copy anew."""

    spec: SourceSpec
    new: bool
    steps: tuple[str, ...]
    reselected: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not self.new and not self.steps


def plan(catalog: Catalog, given: SourceSpec) -> SourcePlan:
    """Compare a source of a file with the one that is here; asks the server, changes nothing."""
    spec = _with_columns(given)
    known = sources.lookup(catalog, spec.name)
    if known is None:
        return SourcePlan(spec, True, (f"captured with {', '.join(spec.tables)}",))
    steps = [] if known.dsn == spec.dsn else ["another connection"]
    reselected: set[str] = set()
    for option in sorted({*known.options, *spec.options}):
        before, after = known.options.get(option), spec.options.get(option)
        if before == after:
            continue
        if option in _SELECTIONS:
            reselected |= _affected(known, option, before, after)
        elif option in _FIXED:
            raise ConfigError(
                f"{option} of source {spec.name} cannot be changed", hint="Remove the source and add it again."
            )
        else:
            steps.append(f"{option} is {_shown(after)}, was {_shown(before)}")
    compared = membership.compare(catalog, replace(known, dsn=spec.dsn), spec.tables)
    here = set(membership.names(catalog, known)) - set(compared.left_out)
    reselected &= here
    steps += [f"{name} is copied again with other rows or columns" for name in sorted(reselected)]
    steps += [f"{name} is copied" for name in compared.added]
    steps += [f"{name} is left out" for name in compared.left_out]
    if compared.listed != compared.before and not (compared.added or compared.left_out):
        steps.append(f"tables are {', '.join(compared.listed)}")
    return SourcePlan(spec, False, tuple(steps), tuple(sorted(reselected)))


def _with_columns(spec: SourceSpec) -> SourceSpec:
    """Columns that are left out, as lists of those that are not."""
    SourceConfig.from_dsn(spec.dsn, spec.tables, "apply", **reader_options(spec.options))
    if not spec.excluded:
        return spec
    lists: dict[str, Any] = dict(spec.options.get("publication_column_list", {}))
    with connect(spec.dsn) as connection:
        for name, table in discover(connection, list(spec.excluded)).items():
            left_out = next(columns for asked, columns in spec.excluded.items() if ".".join(split_name(asked)) == name)
            unknown = sorted(set(left_out) - set(table.schema.names))
            if unknown:
                raise ConfigError(
                    f"exclude_columns of {name} has {', '.join(unknown)}",
                    hint=f"Its columns are {', '.join(table.schema.names)}.",
                )
            lists[table.spelled] = [column for column in table.schema.names if column not in left_out]
    return replace(spec, options={**spec.options, "publication_column_list": lists}, excluded={})


def _affected(source: Source, option: str, before: Any, after: Any) -> set[str]:
    """The tables whose selection differs."""
    old, new = _by_table(source, option, before), _by_table(source, option, after)
    return {name for name in {*old, *new} if old.get(name) != new.get(name)}


def _by_table(source: Source, option: str, given: Any) -> dict[str, Any]:
    if given in (None, "", {}):
        return {}
    if not isinstance(given, Mapping) or "*" in given:
        raise ConfigError(
            f"{option} of source {source.name} is for every table and cannot be changed",
            hint="Give it by table, or remove the source and add it again.",
        )
    return {".".join(split_name(name)): value for name, value in given.items()}


def _shown(value: Any) -> str:
    return "the default" if value is None else str(value)
