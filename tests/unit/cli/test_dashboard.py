"""The demo's display: what a frame and a line say, on a terminal and without one."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from penstock.demo.dashboard import Display, Picture, View, draw, line
from penstock.lsn import Lsn


@pytest.fixture
def picture() -> Picture:
    picture = Picture({"open_orders": View("open_orders", Lsn(100), "DIFFERENTIAL", 12, 0.4)}, 60)
    picture.captured, picture.rows, picture.transactions = Lsn(150), 1234, 321
    picture.rates.extend([10, 40, 20])
    picture.clock.saw(Lsn(120), time.monotonic() - 3)
    picture.clock.saw(Lsn(2150), time.monotonic() - 1)
    picture.did("open_orders: DIFFERENTIAL, +6 −6", 0.4)
    return picture


def printed(*, terminal: bool) -> tuple[Display, io.StringIO]:
    stream = io.StringIO()
    return Display(Console(file=stream, force_terminal=terminal, width=100, highlight=False)), stream


def test_a_frame_shows_lag_freshness_and_the_last_actions(picture: Picture) -> None:
    display, stream = printed(terminal=False)

    display.console.print(draw(picture))

    frame = stream.getvalue()
    for fact in ("20 row changes/s", "2.0 kB behind, 1.0 s", "0/96", "3.0 s", "DIFFERENTIAL", "1,234 rows", "+6 −6"):
        assert fact in frame


def test_a_line_shows_the_same_facts(picture: Picture) -> None:
    assert "20 row changes/s, captured 0/96 (2.0 kB, 1.0 s behind); fresh to: open_orders 3.0 s" in line(picture)


def test_without_a_terminal_there_are_plain_lines(picture: Picture) -> None:
    display, stream = printed(terminal=False)

    with display.live(picture):
        time.sleep(1.3)

    assert stream.getvalue().count("row changes/s") == 1
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_the_picture_is_redrawn(picture: Picture) -> None:
    display, stream = printed(terminal=True)

    with display.live(picture):
        time.sleep(0.6)

    assert stream.getvalue().count("open_orders: DIFFERENTIAL") > 1


def test_a_step_that_fails_is_not_ticked_off() -> None:
    display, stream = printed(terminal=False)

    with pytest.raises(RuntimeError), display.step("Spark"):
        raise RuntimeError

    assert "Spark …" in stream.getvalue()
    assert "✓" not in stream.getvalue()
