"""Whatever is written, it is read or refused with a place and a hint; and what is shown can be read again."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.catalog.sources import Source
from penstock.catalog.stream_tables import StreamTable
from penstock.errors import PenstockError
from penstock.project.files import read
from penstock.sql.grammar import GRAMMARS, parse
from penstock.sql.run.looking import statement_of, statement_of_source
from penstock.sql.statements import CreateSource, CreateStreamTable

WORDS = [
    *sorted({word for grammar in GRAMMARS for word in grammar.words.split()}),
    "AS", "SELECT 1 AS a", "IF", "NOT", "EXISTS", "SCHEDULE", "CRON", "MODE", "FULL", "WITH", "SET", "name", '"Name"',
    "'5m'", "(", ")", ",", "=", ".", ";", "''", "'", '"', "$$", "$a$", "--", "/*", "*/", "\\", "5", "1e", "0x", "E'\\'",
    "\n", "é", "\x00", "CASCADE", "LIKE", "LIMIT", "OF", "EMIT", "CHANGES", "WATERMARK", "FOR", "SUSPEND", "option",
]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30)


def refusal(read_it: Callable[[], object]) -> PenstockError | None:
    try:
        read_it()
    except PenstockError as refused:
        return refused
    return None


@given(texts)
@example("CREATE STREAM TABLE v AS SELECT 1 AS a EMIT")
@example("CREATE STREAM TABLE v AS SELECT $$")
@example("CREATE STREAM TABLE v AS 0?")
def test_any_text_is_read_or_refused(text: str) -> None:
    refused = refusal(lambda: parse(text))
    assert refused is None or (refused.message.startswith("line ") and refused.hint)


@given(texts)
@example("0?")
def test_any_file_is_read_or_refused(text: str) -> None:
    refused = refusal(lambda: read(text, "a.sql"))
    assert refused is None or (refused.message.startswith("a.sql:") and refused.hint)


@given(
    schedule=st.sampled_from([None, "5m", "*/5 * * * *", "on-commit"]),
    mode=st.sampled_from(["AUTO", "FULL"]),
    cdc_mode=st.sampled_from([None, "wal"]),
    note=st.text(alphabet="a';\\\"-$ \n", max_size=12),
)
def test_what_is_shown_of_a_stream_table_makes_it(
    schedule: str | None, mode: str, cdc_mode: str | None, note: str
) -> None:
    quoted = note.replace("'", "''")
    query = f"SELECT '{quoted}' AS a -- why"
    table = StreamTable(1, "v", query, "postgres", mode, schedule, "ACTIVE", None, None, (), written=query)
    if cdc_mode:
        table = StreamTable(**{**vars(table), "cdc_mode": cdc_mode})
    (found,) = parse(statement_of(table) + "\n;")
    given_settings = {"schedule": schedule, "mode": mode, "cdc_mode": cdc_mode}
    settings = {name: value for name, value in given_settings.items() if value is not None}
    assert found.statement == CreateStreamTable("v", query, settings)


def test_what_is_shown_of_a_source_can_be_read() -> None:
    source = Source(
        1, "shop", "host=db password='it\\'s secret' dbname=x", ("public.*", 'public."A b"'),
        {"heartbeat_interval": 5.0, "publication_row_filter": {"t": "a = 'x'"}},
        "s", "p", "streaming", None, None, None,
    )  # fmt: skip
    (found,) = parse(statement_of_source(source))
    assert isinstance(found.statement, CreateSource)
    assert found.statement.options == {
        "connector": "postgres-cdc",
        "dsn": "password=*** dbname=x host=db",
        "tables": 'public.*, public."A b"',
        "heartbeat.interval": "5.0",
        "publication.row.filter": '{"t": "a = \'x\'"}',
    }
