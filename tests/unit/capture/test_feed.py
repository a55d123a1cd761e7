"""Chunks come out of a feed in the order in which they were read, small ones together, and an error behind them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from penstock.capture.bulk import Buffer, Chunk
from penstock.capture.feed import Feed
from penstock.errors import SourceUnreachable


class Given:
    """A reader of chunks that are given to it; the feed has read all of them when `empty` is set."""

    gathering = False

    def __init__(self, chunks: list[list[bytes]], then: Exception | None) -> None:
        self._chunks = iter(chunks)
        self._then = then
        self.finished = False
        self.empty = threading.Event()
        self.socket, self._writing = os.pipe()
        os.write(self._writing, b"x")

    def fill(self, buffer: Buffer) -> Chunk | None:
        messages = next(self._chunks, None)
        if messages is None:
            self.empty.set()
            if self._then is not None:
                raise self._then
            self.finished = True
            return None
        data = np.frombuffer(b"".join(messages), np.uint8)
        buffer.data[: data.size] = data
        buffer.ends[: len(messages)] = np.cumsum([len(message) for message in messages])
        return Chunk(buffer.data, buffer.ends, len(messages), data.size, buffer=buffer)

    def tick(self) -> None:
        """Nothing is due."""

    def close(self) -> None:
        os.close(self.socket)
        os.close(self._writing)


def messages_of(chunk: Chunk) -> Iterator[bytes]:
    begin = chunk.start
    for end in chunk.ends[: chunk.messages]:
        yield chunk.data[begin:end].tobytes()
        begin = end


def taken(feed: Feed) -> tuple[list[bytes], int]:
    found, chunks = [], 0
    while not feed.finished:
        chunk = feed.take(1.0)
        if chunk is not None:
            chunks += 1
            found += messages_of(chunk)
            feed.give_back(chunk)
    return found, chunks


@pytest.mark.parametrize("seed", range(5))
def test_all_messages_come_once_and_in_order(seed):
    dice = Random(seed)
    sizes = [1, 40, 3000, 70_000]
    chunks = [[dice.randbytes(dice.choice(sizes)) for _ in range(dice.randint(1, 5))] for _ in range(60)]
    feed = Feed(Given(chunks, None), "test")
    found, _ = taken(feed)
    feed.close()
    assert found == [message for chunk in chunks for message in chunk]


def test_small_chunks_that_wait_come_together():
    reader = Given([[b"a", b"b"], [b"c"]], None)
    feed = Feed(reader, "test")
    assert reader.empty.wait(5)
    assert taken(feed) == ([b"a", b"b", b"c"], 1)
    feed.close()


def test_many_small_chunks_are_read_while_nobody_takes_any():
    chunks = [[bytes([number]) * 10] for number in range(40)]
    reader = Given(chunks, None)
    feed = Feed(reader, "test")
    assert reader.empty.wait(5), "there are fewer buffers than chunks"
    assert taken(feed) == ([message for chunk in chunks for message in chunk], 1)
    feed.close()


def test_a_caller_that_takes_nothing_stops_the_reading():
    reader = Given([[bytes(10)] for _ in range(1000)], None)
    feed = Feed(reader, "test")
    assert not reader.empty.wait(0.3)
    assert len(taken(feed)[0]) == 1000
    feed.close()


def test_an_error_comes_behind_what_was_read_before_it():
    reader = Given([[b"a"], [b"b"]], SourceUnreachable("gone"))
    feed = Feed(reader, "test")
    assert reader.empty.wait(5)
    chunk = feed.take(1.0)
    assert chunk is not None
    assert list(messages_of(chunk)) == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(SourceUnreachable):
            feed.take(1.0)
    feed.close()
