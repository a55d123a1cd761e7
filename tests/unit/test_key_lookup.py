"""Looking keys up in segments finds what reading all of them would, and opens only what may have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.relation import key_lookup, segment
from penstock.relation.home import Home
from penstock.relation.segment import Segment, SegmentWriter
from penstock.zset import among

SCHEMA = pa.schema([("a", pa.int32()), ("s", pa.string()), ("v", pa.int64()), ("_weight", pa.int64())])
numbers = st.one_of(st.none(), st.integers(-3, 12))
rows = st.lists(st.tuples(numbers, st.sampled_from([None, "x", "y"]), st.integers(0, 3)), min_size=1, max_size=12)


def written(home: Home, files: list[list[tuple[Any, ...]]]) -> list[Segment]:
    writer = SegmentWriter(home, "tables/shop/public/t", 1)
    segments = []
    for number, file in enumerate(files):
        columns = [pa.array([row[i] for row in file], SCHEMA.field(i).type) for i in range(3)]
        weights = pa.array([1] * len(file), pa.int64())
        lsn = pa.array([number] * len(file), pa.int64())
        table = pa.table([*columns, weights, lsn], names=[*SCHEMA.names, "_lsn"])
        segments.append(writer.write(table, number, number))
    return segments


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(rows, min_size=1, max_size=4), wanted=rows, names=st.sampled_from([["a"], ["s"], ["a", "s"]]),
       small=st.booleans(), bounds=st.tuples(st.integers(-1, 3), st.integers(0, 4)))  # fmt: skip
def test_what_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Any, wanted: Any, names: list[str], small: bool, bounds: Any
) -> None:
    home = Home.at(tmp_path)
    after, until = bounds
    segments = [one for one in written(home, files) if one.high > after and one.low <= until]
    keys = pa.table(
        {name: pa.array([row["as".index(name)] for row in wanted], SCHEMA.field(name).type) for name in names}
    )
    everything = segment.read(home, segments, SCHEMA, after=after, until=until)
    expected = everything.filter(among(everything.select(names), keys))
    monkeypatch.setattr(key_lookup, "_SMALL", 1 << 20 if small else 0)
    key_lookup._footer.cache_clear()  # the next example writes the same names
    found = key_lookup.find(home, segments, SCHEMA, keys, after=after, until=until)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_segments_of_other_keys_are_not_opened(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    segments = written(home, [[(n, "x", 0) for n in range(low, low + 10)] for low in (0, 100, 200)])
    for one in (segments[0], segments[2]):
        segment.remove(home.path(one.path))
    keys = pa.table({"a": pa.array([105, 300], pa.int32())})
    found = key_lookup.find(home, segments, SCHEMA, keys, after=-1, until=9)
    assert found["a"].to_pylist() == [105]
