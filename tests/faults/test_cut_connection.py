"""A connection that ends at any byte, stalls or is refused costs time and nothing else."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest
from faults.consumer import write


def cut_at(lengths):
    """A length for every new connection until they are used up; then connections are whole."""
    left = iter(lengths)
    return lambda: next(left, None)


def test_cut_while_copying_and_streaming(db, proxy, consumer):
    """Most connections end in their first kilobytes (start-up, checks), the rest in the copy or in the stream."""
    dice = random.Random(4)
    proxy.length = cut_at(int(10 ** dice.uniform(0, 5.2)) for _ in range(30))
    for tx in range(1, 40):
        write(db, tx)
        consumer.step()
    consumer.catch_up()
    assert len(consumer.errors) > 3
    consumer.assert_exact(db)


def test_cut_in_the_stream_at_every_distance_from_a_message_boundary(db, proxy, consumer):
    """Consecutive lengths, past the end of the replication connection's start: inside headers, LSNs and values."""
    consumer.catch_up()
    consumer.close()
    before = len(proxy.passed)
    write(db, 1, rows=3)
    consumer.catch_up()
    streamed = max(proxy.passed[before:])
    lengths = [streamed - 40 + 11 * n for n in range(7)]
    for number, length in enumerate(lengths):
        consumer.close()
        proxy.length = lambda length=length: length
        write(db, 2 + number, rows=3)
        consumer.step()
        consumer.step()
        proxy.length = lambda: None
        consumer.catch_up()
    assert consumer.errors
    consumer.assert_exact(db)


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["initial", "never"])
def test_cut_at_every_byte(db, proxy, consumer, mode):
    """Every length from 1 byte on, in steps of a prime, until a whole run passes."""
    consumer.catch_up()
    for number, length in enumerate(range(1, 60_000, 97)):
        consumer.close()
        if mode == "initial" and number % 10 == 0:
            consumer.state = None
        proxy.length = cut_at([length] * 4)
        write(db, 1 + number, rows=5)
        consumer.step()
        consumer.step()
        if number % 20 == 0:
            consumer.catch_up()
            consumer.assert_exact(db)
    consumer.catch_up()
    consumer.assert_exact(db)


def test_a_server_that_refuses_for_a_while(db, proxy, consumer):
    consumer.catch_up()
    proxy.refusing = True
    proxy.cut_all()
    write(db, 1)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        consumer.step()
    assert consumer.errors
    proxy.refusing = False
    consumer.catch_up()
    consumer.assert_exact(db)


def test_a_stalled_connection_goes_on_where_it_was(db, proxy, consumer):
    consumer.catch_up()
    write(db, 1)
    consumer.catch_up()  # the stream has begun
    with proxy.stalled():
        write(db, 2)
        for _ in range(20):
            consumer._poll()
        assert not consumer.errors
    consumer.catch_up()
    consumer.assert_exact(db)


def test_cut_under_load(db, source_db, proxy, consumer):
    """Writers do not wait for the reader: cuts fall anywhere in the stream of their transactions."""

    def busy() -> None:
        with psycopg.connect(source_db, autocommit=True) as writer:
            for tx in range(1, 150):
                write(writer, tx, rows=30)

    dice = random.Random(11)
    proxy.length = lambda: dice.randint(20_000, 200_000)
    thread = threading.Thread(target=busy)
    thread.start()
    while thread.is_alive():
        consumer.step()
    proxy.length = lambda: None
    consumer.catch_up()
    thread.join()
    assert consumer.errors
    consumer.assert_exact(db)
