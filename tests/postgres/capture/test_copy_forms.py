"""A value that does not fit while a table is copied through poll: the table is taken back and comes in other forms."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.capture import Checkpoint, forms
from penstock.errors import FormChanged

pytestmark = pytest.mark.since(14, "ranges of blocks")
OPTIONS = {"copy_range_blocks": 2, "copy_workers": 2}


@pytest.fixture
def table(db):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric, d date, v text)")
    db.execute("INSERT INTO t SELECT i, i + 0.50, '2020-01-01', repeat('v', 50) FROM generate_series(1, 500) i")
    db.execute("CREATE TABLE o (id int PRIMARY KEY); INSERT INTO o SELECT generate_series(1, 1000)")
    return db


def state_of(received, name="public.t"):
    return {key[0]: row for key, row in received.state(name, "id").items()}


@pytest.mark.parametrize("limit", [7, 1024])
@pytest.mark.parametrize("odd", [1, 250, 500])
def test_the_table_comes_again_in_a_form_that_holds_all_values(table, make_source, drain, odd, limit):
    table.execute("UPDATE t SET n = 'NaN', d = 'infinity' WHERE id = %s", [odd])
    table.execute("VACUUM FULL t")
    source = make_source("t", "o", **OPTIONS)
    source.open()
    received = drain(source, limit=limit)
    table.execute("INSERT INTO t VALUES (501, 'Infinity', '0044-03-15 BC', 'later'); INSERT INTO o VALUES (1001)")
    drain(source, received, limit=limit)
    state = state_of(received)
    assert len(state) == 501
    assert (state[odd]["n"], state[odd]["d"]) == ("NaN", "infinity")
    assert (state[501]["n"], state[501]["d"]) == ("Infinity", "0044-03-15 BC")
    assert all(state[i]["n"] == f"{i}.50" for i in range(1, 501) if i != odd)
    assert sorted(key[0] for key in received.state("public.o", "id")) == list(range(1, 1002))
    assert source.tables["public.t"].column("n").spark == "string"
    assert not any(row["_op"] == "T" for row in received.rows("public.o"))


def test_a_number_with_many_digits_keeps_a_decimal(table, make_source, drain):
    table.execute("INSERT INTO t VALUES (600, 1e25, '2020-01-01', 'x')")
    source = make_source("t", **OPTIONS)
    source.open()
    state = state_of(drain(source))
    assert source.tables["public.t"].column("n").spark == "decimal(38,6)"
    assert (state[600]["n"], state[3]["n"]) == (Decimal(10) ** 25, Decimal("3.5"))


def test_a_form_that_was_asked_for_is_not_changed(table, make_source, drain):
    table.execute("UPDATE t SET n = 'NaN' WHERE id = 77")
    source = make_source("t", column_forms={"public.t.n": "native"}, **OPTIONS)
    source.open()
    with pytest.raises(FormChanged, match="has the value NaN"):
        drain(source)


def test_a_checkpoint_knows_the_forms(table, make_source, drain, monkeypatch):
    """So that a restored source needs no look at the values, which may be others by then."""
    table.execute("UPDATE t SET n = 'NaN' WHERE id = 77")
    source = make_source("t", "o", **OPTIONS)
    source.open()
    drain(source)
    state = Checkpoint.from_json(source.checkpoint().to_json())
    assert state == source.checkpoint()
    assert state.forms == {"public.t.n": (1700, "string")}
    source.close()
    table.execute("UPDATE t SET n = 8.00 WHERE id = 77")
    monkeypatch.setattr(forms, "_answers", None)
    again = make_source("t", "o", **OPTIONS)
    again.restore(state)
    again.open()
    assert drain(again).rows("public.t")[-1]["n"] == "8.00"
