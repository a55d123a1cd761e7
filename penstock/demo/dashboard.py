"""What the demo shows: a live picture on a terminal, one plain line a second anywhere else.

The flow writes facts into a `Picture`; a display reads them at its own pace, so it keeps moving while Spark works.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich import filesize
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.lsn import Lsn

_BARS = "▁▂▃▄▅▆▇█"


class WalClock:
    """Tells how old a position is, from samples of where the WAL ended at what time.

    >>> clock = WalClock()
    >>> for moment, end in ((10.0, 100), (11.0, 200), (12.0, 300)):
    ...     clock.saw(Lsn(end), moment)
    >>> clock.age(Lsn(300), now=15.0), clock.age(Lsn(150), now=15.0), clock.behind(Lsn(150))
    (0.0, 4.0, 150)
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Lsn]] = deque(maxlen=4096)

    def saw(self, end: Lsn, moment: float) -> None:
        if not self._samples or end > self._samples[-1][1]:
            self._samples.append((moment, end))

    def age(self, position: Lsn, now: float) -> float:
        """Seconds since the first WAL after `position` was seen; 0 when there is none."""
        missing = next((moment for moment, end in tuple(self._samples) if end > position), None)
        return 0.0 if missing is None else now - missing

    def behind(self, position: Lsn) -> int:
        """Bytes of WAL after `position`."""
        return max(0, self._samples[-1][1] - position) if self._samples else 0


@dataclass
class View:
    """A stream table as the demo last saw it."""

    name: str
    position: Lsn = field(default_factory=Lsn)
    action: str = "–"
    changed: int = 0
    seconds: float = 0.0


@dataclass
class Picture:
    """Everything on show. Written by the flow and the sampler, read by a display; a torn read costs one frame."""

    views: dict[str, View]
    length: float | None
    clock: WalClock = field(default_factory=WalClock)
    started: float = field(default_factory=time.monotonic)
    captured: Lsn = field(default_factory=Lsn)
    transactions: int = 0
    rows: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=40))
    doing: str = "starting"
    actions: deque[str] = field(default_factory=lambda: deque(maxlen=7))

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def did(self, what: str, seconds: float) -> None:
        self.actions.append(f"{self.elapsed():6.1f}s  {what}  ({seconds:.2f} s)")

    def freshness(self, view: View) -> float:
        return self.clock.age(view.position, time.monotonic())


def sparkline(values: Sequence[float]) -> str:
    """
    >>> sparkline([0, 1, 2, 4]), sparkline([]), sparkline([0, 0])
    ('▁▂▄█', '', '▁▁')
    """
    top = max(values, default=0) or 1
    return "".join(_BARS[int(value / top * (len(_BARS) - 1))] for value in values)


def draw(picture: Picture) -> RenderableType:
    """One frame."""
    remaining = "until Ctrl-C" if picture.length is None else f"of {picture.length:.0f} s"
    return Panel(
        Group(_flow(picture), Text(), _views(picture), Text(), _actions(picture)),
        title=f"[bold]penstock[/] · {min(picture.elapsed(), picture.length or 1e9):.0f} s {remaining}",
        subtitle=f"[dim]{picture.doing}[/]",
        border_style="blue",
    )


def _flow(picture: Picture) -> Table:
    now = time.monotonic()
    rate = picture.rates[-1] if picture.rates else 0.0
    grid = Table.grid(padding=(0, 3))
    grid.add_row(
        Text("shop", style="dim"),
        Text.assemble((f"{rate:5.0f}", "bold"), " row changes/s  ", (sparkline(picture.rates), "cyan")),
        Text(f"{picture.rows:,} rows in {picture.transactions:,} transactions"),
    )
    grid.add_row(
        Text("capture", style="dim"),
        Text.assemble(
            (filesize.decimal(picture.clock.behind(picture.captured)), "bold"),
            " behind, ",
            (f"{picture.clock.age(picture.captured, now):.1f} s", "bold"),
        ),
        Text(f"every commit up to {picture.captured}"),
    )
    return grid


def _views(picture: Picture) -> Table:
    grid = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 3, 0, 0))
    grid.add_column("view")
    grid.add_column("freshness", justify="right")
    grid.add_column("last refresh")
    grid.add_column("rows changed", justify="right")
    grid.add_column("took", justify="right")
    for view in picture.views.values():
        age = picture.freshness(view)
        style = "green" if age < 5 else "yellow" if age < 20 else "red"
        grid.add_row(view.name, Text(f"{age:.1f} s", style), view.action, f"{view.changed:,}", f"{view.seconds:.2f} s")
    return grid


def _actions(picture: Picture) -> Text:
    return Text("\n".join(picture.actions), style="dim")


def line(picture: Picture) -> str:
    """The same facts on one line, for logs and pipes."""
    now = time.monotonic()
    views = ", ".join(f"{view.name} {picture.freshness(view):.1f} s" for view in picture.views.values())
    rate = picture.rates[-1] if picture.rates else 0.0
    return (
        f"[{picture.elapsed():5.1f} s] {rate:.0f} row changes/s, "
        f"captured {picture.captured} ({filesize.decimal(picture.clock.behind(picture.captured))}, "
        f"{picture.clock.age(picture.captured, now):.1f} s behind); fresh to: {views}; {picture.doing}"
    )


class Display:
    """Set-up steps, the live part and the outcome, in the form that fits where it is printed."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A step with its time; it is named before it starts, because Spark takes a while."""
        started = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(f"{what} …"):
                yield
        else:
            self.console.print(f"{what} …")
            yield
        self.console.print(f"[green]✓[/] {what} [dim]{time.monotonic() - started:.1f} s[/]")

    @contextmanager
    def live(self, picture: Picture) -> Iterator[None]:
        if self.console.is_terminal:
            with Live(console=self.console, get_renderable=lambda: draw(picture), refresh_per_second=4):
                yield
            return
        done = threading.Event()
        printer = threading.Thread(target=self._print_lines, args=(picture, done), daemon=True, name="demo-lines")
        printer.start()
        try:
            yield
        finally:
            done.set()
            printer.join()

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def outcome(self, good: bool, text: str) -> None:
        self.console.print(Text(("✓ " if good else "✗ ") + text, style="bold green" if good else "bold red"))

    def _print_lines(self, picture: Picture, done: threading.Event) -> None:
        while not done.wait(1):
            self.console.print(line(picture), markup=False, soft_wrap=True)
