"""A caller that keeps what it is given with the checkpoint it belongs to, and goes on from there after any error."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import psycopg
from psycopg.rows import dict_row
from servers import NO_TRUNCATE

from penstock.capture import Batch, Checkpoint, PostgresSource, SourceConfig, remove
from penstock.errors import PenstockError

SETUP = """
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, note text);
CREATE TABLE events (tx int, k int, PRIMARY KEY (tx, k));
INSERT INTO accounts SELECT g, 0, repeat('n', g) FROM generate_series(1, 200) g;
INSERT INTO events SELECT 0, g FROM generate_series(1, 3000) g;
"""


def write(db: psycopg.Connection[Any], tx: int, rows: int = 20) -> None:
    """One transaction of a known number of events, with updates, a moved key, and one that never commits."""
    with db.transaction():
        db.execute("INSERT INTO events SELECT %s, g FROM generate_series(1, %s) g", [tx, rows])
        db.execute("UPDATE accounts SET balance = balance + 1 WHERE id %% 10 = %s", [tx % 10])
        db.execute("UPDATE accounts SET id = 1000 + id WHERE id = %s", [tx % 200 + 1])
        db.execute("UPDATE accounts SET note = repeat('m', 3000) WHERE id = %s", [tx % 190 + 5])
    with db.transaction(force_rollback=True):
        db.execute("INSERT INTO events VALUES (%s, 0)", [tx])


class Consumer:
    """Polls in pieces of any size, makes durable and acknowledges at times of its own, and never gives up early."""

    def __init__(self, dsn: str, slot: str, *, direct: str | None = None, seed: int = 0, **options: Any) -> None:
        self._direct = direct or dsn
        options = {**NO_TRUNCATE, "reconnect": False, **options}
        self.config = SourceConfig.from_dsn(dsn, ["accounts", "events"], slot_name=slot, **options)
        self.source = PostgresSource(self.config)
        self.dice = random.Random(seed)
        self.durable: list[Batch] = []
        self.state: Checkpoint | None = None
        self.errors: list[PenstockError] = []
        self._fresh: list[Batch] = []

    def catch_up(self, *, within: float = 60) -> None:
        """Everything committed now is durable here."""
        deadline = time.monotonic() + within
        while not self._tried():
            assert time.monotonic() < deadline, f"still not there after {len(self.errors)} errors: {self.errors[-1]}"

    def step(self, *, acknowledge: bool = False) -> None:
        """One poll; a transient error costs what was not durable."""
        try:
            self._open()
            self._poll()
            if acknowledge:
                self.make_durable(acknowledge=True)
        except PenstockError as error:
            self.fall_back(error)

    def _tried(self) -> bool:
        try:
            self._open()
            target = self.source.current_lsn()
            while self.source.checkpoint().lsn < target:
                self._poll()
            self.make_durable(acknowledge=True)
            return True
        except PenstockError as error:
            self.fall_back(error)
            return False

    def _open(self) -> None:
        if self.source.phase != "closed":
            return
        if self.state is None:
            self.durable = []
            remove(self._direct, self.config.slot_name, self.config.publication_name)
        self.source.restore(self.state)
        self.source.open()

    def _poll(self) -> None:
        batch = self.source.poll(max_records=self.dice.randint(1, 2000), timeout=0.02)
        if batch is not None:
            self._fresh.append(batch)
        if self.dice.random() < 0.3:
            self.make_durable(acknowledge=self.dice.random() < 0.5)

    def make_durable(self, *, acknowledge: bool) -> None:
        if self._fresh and not self._fresh[-1].complete:
            return
        state = self.source.checkpoint()
        if state.lsn == 0:
            return
        self.durable += self._fresh
        self._fresh, self.state = [], state
        if acknowledge:
            self.source.acknowledge(state)

    def fall_back(self, error: PenstockError) -> None:
        if not error.transient:
            raise error
        self.errors.append(error)
        self.close()
        time.sleep(0.02)

    def close(self) -> None:
        """As a crash does: what is not durable is gone."""
        self.source.close()
        self._fresh = []

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [
            row
            for batch in self.durable
            if table in (tables := batch.to_arrow())
            for row in tables[table].to_pylist()
        ]  # fmt: skip

    def assert_exact(self, db: psycopg.Connection[Any]) -> None:
        """Every event once, every transaction whole and at one place, and the accounts as they are in the table."""
        events = self.rows("public.events")
        seen = Counter((row["tx"], row["k"]) for row in events)
        assert seen == Counter(db.execute("SELECT tx, k FROM events").fetchall())
        assert {row["_op"] for row in events} <= {"I", "R"}
        places = {(row["tx"], row["_lsn"]) for row in events if row["_op"] == "I"}
        assert len(places) == len({tx for tx, _ in places})
        with db.cursor(row_factory=dict_row) as cursor:
            expected = {row["id"]: row for row in cursor.execute("SELECT * FROM accounts")}
        assert self._accounts() == expected

    def _accounts(self) -> dict[int, dict[str, Any]]:
        accounts: dict[int, dict[str, Any]] = {}
        gone: dict[str, Any] = {}
        for row in self.rows("public.accounts"):
            if row["_weight"] < 0:
                gone = accounts.pop(row["id"])
                continue
            assert row["id"] not in accounts, f"account {row['id']} came twice"
            accounts[row["id"]] = {name: row[name] for name in ("id", "balance", "note")}
            if row["_absent"]:
                accounts[row["id"]]["note"] = gone["note"]
        return accounts
