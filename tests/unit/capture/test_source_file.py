"""A YAML file with sources, in the words of `add_source`; what is wrong in it is named with its place."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from penstock.capture.config import SourceConfig
from penstock.capture.source_file import SourceSpec, read_file
from penstock.errors import ConfigError


def read(tmp_path: Path, text: str) -> list[SourceSpec]:
    file = tmp_path / "sources.yaml"
    file.write_text(dedent(text))
    return read_file(file, SourceConfig.types())


def test_a_file_with_several_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    shop, billing = read(
        tmp_path,
        """
        sources:
          shop:
            dsn: postgresql://me:${PASSWORD}@db/shop
            on_schema_change: ignore
            heartbeat.interval.ms: 2500
            schemas:
              public: "*"
              Sales:
                exclude: [log_*]
                "*":
                orders: {include_columns: [id, a, b], exclude_columns: [b], row_filter: "a > 0"}
                users: {exclude_columns: [ssn], sync_mode: copy-and-stream}
                plain: {sync_mode: stream-only}
          billing:
            host: b
            dbname: x
            schemas: {public: [one, "Two"]}
        """,
    )
    assert shop.dsn == "postgresql://me:secret@db/shop"
    assert "secret" not in repr(shop)
    sales = ('!"Sales".log_*', '"Sales".*', '"Sales".orders', '"Sales".users', '"Sales".plain')
    assert shop.tables == ("public.*", *sales)
    assert shop.options == {
        "on_schema_change": "ignore",
        "heartbeat_interval": 2.5,
        "publication_column_list": {'"Sales".orders': ["id", "a"]},
        "publication_row_filter": {'"Sales".orders': "a > 0"},
        "sync_modes": {"Sales.plain": "stream-only"},
    }
    assert shop.excluded == {'"Sales".users': ("ssn",)}
    assert (billing.dsn, billing.tables) == ("host=b dbname=x", ("public.one", 'public."Two"'))


def test_a_file_with_one_source(tmp_path: Path) -> None:
    (only,) = read(tmp_path, "group: app\nhost: h\nport: 5432\ndbname: d\nuser: u\n")
    assert (only.name, only.dsn, only.tables) == ("app", "host=h port=5432 dbname=d user=u", ("public.*",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "is not a mapping"),
        ("a: [", r"is not YAML \(line 1"),
        ("host: h", "names no source"),
        ("sources: {a: {host: h}}", "source a names no database"),
        ("sources: {a: {dsn: x, host: h}}", "both dsn and host"),
        ("sources: {a: {dsn: 'postgresql://${NOT_SET_HERE}'}}", "NOT_SET_HERE is not set"),
        ("sources: {a: {dsn: d, hartbeat_interval: 1}}", "no such source option: hartbeat_interval"),
        ("sources: {a: {dsn: d, schemas: {public: {t: {columns: [a]}}}}}", r"public\.t has columns"),
        ("sources: {a: {dsn: d, schemas: {public: {t: {sync_mode: once}}}}}", r"sync_mode of public\.t is 'once'"),
        ("sources: {a: {dsn: d, schemas: {public: {t: {include_columns: id}}}}}", "not a list of names"),
        ("sources: {a: {dsn: d}}\nport: 1", "port beside `sources`"),
        ("sources: {a: {dsn: d, dsn: e}}", "dsn is given twice"),
        ("sources: {a: {dbname: d, database: e}}", "dbname is given twice"),
        ("sources: {a: {dsn: 5.5}}", "dsn is not text"),
        ("sources: {a: {dbname: d, password: [a]}}", "password is not text"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read(tmp_path, text)
    assert refused.value.hint
