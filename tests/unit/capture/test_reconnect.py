"""Pauses grow to half a minute and never meet; only what may pass by itself is tried again."""

from __future__ import annotations

import random
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import errors
from penstock.capture.reconnect import Reconnecting, delays, may_retry


@given(st.integers())
def test_pauses_double_from_100_ms_to_30_s_and_half_of_each_is_chance(seed):
    bounds = [min(0.1 * 2**n, 30.0) for n in range(14)]
    for bound, pause in zip(bounds, delays(random.Random(seed)), strict=False):
        assert bound / 2 <= pause <= bound
    assert list(islice(delays(random.Random(seed)), 14)) == list(islice(delays(random.Random(seed)), 14))


def test_two_readers_do_not_come_back_together():
    first, second = (list(islice(delays(random.Random(seed)), 12)) for seed in (1, 2))
    assert all(abs(a - b) > 1e-6 for a, b in zip(first, second, strict=True))
    assert all(later > earlier * 0.5 for earlier, later in pairwise(first))


RETRIED = {errors.SourceUnreachable, errors.SlotInUse, errors.NoSlotLeft, errors.ChangedMeanwhile}


def subclasses(kind: type[errors.PenstockError]) -> list[type[errors.PenstockError]]:
    return [kind, *(found for each in kind.__subclasses__() for found in subclasses(each))]


@pytest.mark.parametrize("kind", subclasses(errors.PenstockError), ids=lambda kind: kind.__name__)
def test_every_error_is_retried_or_stops_by_its_class(kind):
    assert may_retry(kind("what happened")) is (kind in RETRIED)


def test_other_exceptions_stop():
    assert not may_retry(ConnectionError("reset"))


def test_a_reconnection_tells_its_reason_and_attempt():
    again = Reconnecting(errors.SourceUnreachable("connection refused"), _delays=iter([0.0, 60.0]))
    assert again.wait() == 0.0
    assert str(again) == "reconnecting (attempt 1): connection refused"
    again.failed(errors.SourceUnreachable("starting up"))
    assert 59 < again.wait() <= 60
    assert str(again) == "reconnecting (attempt 2): starting up"
