"""Columns of no values, and of nothing but NULL, are columns like others in both protocols."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.capture.binary_columns import _AS_TEXT, _NATIVE, _NUMBERS, _TEXT_SENDS, from_binary
from penstock.capture.fields import Fields
from penstock.capture.text_columns import from_text
from penstock.relation.types import UNCONSTRAINED_NUMERIC, arrow_type, list_of, spark_type

FORMS = [
    *((send, arrow) for send, (arrow, *_) in (_NATIVE | _NUMBERS).items()),
    ("numeric_send", UNCONSTRAINED_NUMERIC),
    *((send, arrow_type("string")) for send in (*_AS_TEXT, *sorted(_TEXT_SENDS))),
]


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize(("send", "arrow"), FORMS, ids=lambda value: str(value))
def test_nothing_is_held_by_every_form(send, arrow, count):
    nothing = Fields(np.zeros(1, np.uint8), np.zeros(count, np.int64), np.full(count, -1, np.int64))
    for form, code in ((arrow, send), (list_of(arrow), f"array_send:{send}")):
        for found in (from_text(nothing, form), from_binary(nothing, form, code)):
            found.validate(full=True)
            assert found.type == form
            assert found.null_count == len(found) == count
        assert arrow_type(spark_type(form)) == form
