"""PostgreSQL's text of a numeric into a decimal column: the same number, or a refusal that names the row."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.capture.fields import Fields, ValueRefused
from penstock.capture.text_columns import from_text

digits = st.text("0123456789", max_size=45)
texts = st.builds(
    lambda sign, whole, point, zeros: sign + (whole.lstrip("0") or "0") + (f".{point}{zeros}" if point else ""),
    st.sampled_from(["", "-"]),
    digits,
    digits,
    st.sampled_from(["", "000"]),
)
types = st.integers(1, 38).flatmap(lambda p: st.builds(pa.decimal128, st.just(p), st.integers(0, p)))


def fields(*values: str | None) -> Fields:
    stored = [(value or "").encode() for value in values]
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    offsets = np.cumsum([0, *map(len, stored)], dtype=np.int64)[:-1]
    return Fields(np.frombuffer(b"".join(stored) or b"\0", np.uint8).copy(), offsets.copy(), lengths)


def fits(text: str, arrow: pa.DataType) -> bool:
    with localcontext() as exact:
        exact.prec = 200
        scaled = Decimal(text).scaleb(arrow.scale)
        return scaled == scaled.to_integral_value() and abs(scaled) < 10**arrow.precision


@given(texts, types)
def test_a_number_is_itself_or_refused(text: str, arrow: pa.DataType) -> None:
    if fits(text, arrow):
        assert from_text(fields(None, text), arrow).to_pylist() == [None, Decimal(text)]
    else:
        with pytest.raises(ValueRefused) as refused:
            from_text(fields(None, "0", text), arrow)
        assert (refused.value.row, refused.value.value, refused.value.fits_text) == (2, text, True)


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("123456789012345678901234567890.12", pa.decimal128(38, 18)),  # too large only once it has its scale
        ("1234567890.125", pa.decimal128(38, 31)),
        ("20003.1112223334445556667778889990001112223", pa.decimal128(38, 2)),
        ("9" * 39, pa.decimal128(38, 0)),
        *((text, pa.decimal128(38, 18)) for text in ("NaN", "Infinity", "-Infinity", "", "-", ".5", "1.2.3", "1e5")),
    ],
)
def test_what_is_none_or_has_too_many_digits_is_refused(text: str, arrow: pa.DataType) -> None:
    with pytest.raises(ValueRefused):
        from_text(fields(text), arrow)


def test_extremes() -> None:
    most = "9" * 20 + "." + "9" * 18
    for text in (most, "-" + most, "0." + "0" * 17 + "1", "-0." + "0" * 17 + "1"):
        assert from_text(fields(text), pa.decimal128(38, 18)).to_pylist() == [Decimal(text)]
