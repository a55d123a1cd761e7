"""How fast a backlog is read: into a home, and through poll, beside pg_recvlogical and the server's own limit."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from penstock.bench.capture import contenders, restart, tables
from penstock.bench.capture.ground import Database, Ground, expect
from penstock.bench.figure import Figure, seconds
from penstock.capture import Checkpoint

_TRANSACTIONS, _PER_TRANSACTION = 1000, 1000
_TURNS = 5
_TIMES_RECV, _OF_LIMIT = 2.0, 0.7
_RECV, _RAW = "pg_recvlogical", "raw COPY"


@dataclass(frozen=True)
class Workload:
    """`change` is one transaction over the rows first … last, which make 1,000 events."""

    what: str
    columns: str
    row: str
    change: str = ""  # the rows are inserted unless it says otherwise
    change_rows: int = _PER_TRANSACTION  # an update is two
    full_identity: bool = False

    def make(self, source: Database, transactions: int) -> None:
        source.execute(f"CREATE TABLE t ({self.columns})")
        if self.full_identity:
            source.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        if self.change:
            source.execute(tables.insert("t", self.row, 1, transactions * _PER_TRANSACTION))

    def write(self, source: Database, transactions: int) -> None:
        first, last = f"txn * {_PER_TRANSACTION} + 1", f"(txn + 1) * {_PER_TRANSACTION}"
        body = self.change.format(first=first, last=last) or tables.insert("t", self.row, first, last)
        source.execute(tables.in_transactions(transactions, body))


_CHANGE = """
    UPDATE t SET amount = amount + 1, note = 'changed ' || note WHERE id BETWEEN {first} AND {last} AND id % 2 = 0;
    DELETE FROM t WHERE id BETWEEN {first} AND {last} AND id % 2 = 1;
"""
_INSERTS = Workload("inserts", tables.NARROW, tables.NARROW_ROW)
_CHANGES = Workload(
    "updates and deletes, identity FULL",
    tables.NARROW,
    tables.NARROW_ROW,
    change=_CHANGE,
    change_rows=_PER_TRANSACTION * 3 // 2,
    full_identity=True,
)
_WIDE = Workload("inserts of 30 columns", tables.WIDE, tables.WIDE_ROW)


def figures(ground: Ground) -> list[Figure]:
    with ground.database("warming") as source:
        ground.say("warming up")
        _Race(ground, source, _INSERTS, transactions=1, turns=1, name="warming").run()
    found = []
    for number, workload in enumerate((_INSERTS, _CHANGES, _WIDE)):
        with ground.database(f"backlog_{number}") as source:
            transactions = ground.rows(_TRANSACTIONS, least=1)
            race = _Race(ground, source, workload, transactions, ground.times(_TURNS), f"backlog_{number}")
            found += race.run()
            if workload is _INSERTS:
                found.append(restart.figure(ground, f"{race.what} waiting", source.dsn, race.states[0]))
    return found


class _Race:
    """One backlog and its readers, each with its own slots, made before the backlog was."""

    def __init__(
        self, ground: Ground, source: Database, workload: Workload, transactions: int, turns: int, name: str
    ) -> None:
        self._ground = ground
        self._source = source
        self._workload = workload
        self._transactions = transactions
        self._events = transactions * _PER_TRANSACTION
        self._changes = transactions * workload.change_rows
        self._homes = [f"{name}_{turn}" for turn in range(turns)]
        self.states: list[Checkpoint] = []
        self.what = f"{self._events:,} {workload.what}"

    def run(self) -> list[Figure]:
        self._prepare()
        turns = []
        for turn, name in enumerate(self._homes):
            spent = self._turn(name, self.states[turn])
            turns.append({contender: self._events / seconds for contender, seconds in spent.items()})
            for contender, rate in turns[-1].items():
                self._ground.say(f"  {contender}: {rate:,.0f} events/s, {rate / turns[-1][_RECV]:.2f}×")
        for name in self._homes:
            self._ground.captures.remove(name)
        return self._compared(turns)

    def _prepare(self) -> None:
        self._ground.say(f"{self.what}: making them")
        self._workload.make(self._source, self._transactions)
        for name in self._homes:
            contenders.add_to_home(self._ground, self._source, name)
            self.states.append(contenders.checkpoint_of_new(self._source.dsn, f"poll_{name}"))
        contenders.prepare_raw(self._source)
        self._workload.write(self._source, self._transactions)
        self._end = self._source.position()
        self._source.db.execute("SELECT pg_logical_emit_message(true, 'bench', '')")  # a commit beyond the end
        self._source.settle_down()

    def _turn(self, name: str, state: Checkpoint) -> dict[str, float]:
        """Everyone once; what they got is counted outside the clock."""
        ground, source = self._ground, self._source
        copied = contenders.rows_at_home(ground, name)
        counts: list[int] = []
        taken = {}
        contenders.copy_slot(source)
        taken[_RECV] = seconds(lambda: contenders.recvlogical(source, self._end))
        contenders.drop_copied_slot(source)
        taken[_RAW] = seconds(lambda: counts.append(contenders.raw_copy(source)))
        taken["home"] = seconds(lambda: contenders.into_home(ground, name))
        ground.captures.close(name)
        taken["poll"] = seconds(lambda: counts.append(contenders.poll_from(source.dsn, state)))
        messages, polled = counts
        framing = 2 * self._transactions
        expect("messages of the raw COPY cover the backlog", messages >= self._events + framing, True)
        expect("rows that poll gave", polled, self._changes)
        expect("rows in the home", contenders.rows_at_home(ground, name) - copied, self._changes)
        return taken

    def _compared(self, turns: list[dict[str, float]]) -> list[Figure]:
        """Ratios are taken within a turn, whose readers follow each other, and the middle one counts: a machine that
        others share is not as fast in one turn as in the next."""

        def middle(contender: str, beside: str | None = None) -> float:
            return statistics.median(turn[contender] / (turn[beside] if beside else 1) for turn in turns)

        found = [
            Figure(f"{self.what}: pg_recvlogical to nowhere", f"{middle(_RECV):,.0f} events/s"),
            Figure(
                f"{self.what}: raw COPY of the slot to nowhere, the limit",
                f"{middle(_RAW):,.0f} events/s: {middle(_RAW, _RECV):.2f}× pg_recvlogical",
            ),
        ]
        for what, contender in (("slot to durable segments", "home"), ("slot to poll", "poll")):
            recv, limit = middle(contender, _RECV), middle(contender, _RAW)
            text = f"{middle(contender):,.0f} events/s: {recv:.2f}× pg_recvlogical, {limit:.2f} of the limit"
            bar = f"≥ {_TIMES_RECV:g}×, ≥ {_OF_LIMIT:g} (goal 0.9)"
            found.append(Figure(f"{self.what}: {what}", text, bar, recv >= _TIMES_RECV and limit >= _OF_LIMIT))
        return found
