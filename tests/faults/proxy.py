"""A wire between a source and its server that a test can cut after any byte, hold, or take away."""

from __future__ import annotations

import itertools
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST, so that what was sent may be lost too


class Proxy:
    """Listens on a free port and passes everything on to the server's socket.

    `length` is asked for every new connection: how many bytes from the server it lets through before it is cut, in the
    middle of a message if that is where it falls; None for a whole one. Every second cut is a reset.
    """

    def __init__(self, dsn: str) -> None:
        parts = dict(part.split("=", 1) for part in dsn.split())
        self._server = f"{parts['host']}/.s.PGSQL.{parts['port']}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        kept = " ".join(f"{name}={value}" for name, value in parts.items() if name not in ("host", "port"))
        self.dsn = f"host=127.0.0.1 port={self._listener.getsockname()[1]} {kept} sslmode=disable"
        self.length: Callable[[], int | None] = lambda: None
        self.passed: list[int] = []  # bytes from the server, by connection
        self.refusing = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._closing = threading.Event()
        self._cuts = itertools.count()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_all(self) -> None:
        """Every connection ends now."""
        for client in list(self._open):
            _shut(client)

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Nothing passes, in either direction, and nobody is told."""
        self._flowing.clear()
        try:
            yield
        finally:
            self._flowing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._flowing.set()
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:  # the listener was closed
                return
            if self.refusing:
                client.close()
                continue
            self._open.add(client)
            number = len(self.passed)
            self.passed.append(0)
            threading.Thread(target=self._pass, args=(client, number, self.length()), daemon=True).start()

    def _pass(self, client: socket.socket, number: int, length: int | None) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            try:
                server.connect(self._server)
                while self._move(client, server, number, length):
                    pass
                if length is not None and self.passed[number] >= length and next(self._cuts) % 2:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            except OSError:  # one of the two ends is gone: so is the other now
                pass
            finally:
                self._open.discard(client)

    def _move(self, client: socket.socket, server: socket.socket, number: int, length: int | None) -> bool:
        """One read of each side that has something; False when the connection is over."""
        readable, _, _ = select.select([client, server], [], [], 0.5)
        self._flowing.wait()
        if client in readable:
            data = client.recv(1 << 16)
            if not data:
                return False
            server.sendall(data)
        if server in readable:
            left = 1 << 16 if length is None else min(1 << 16, length - self.passed[number])
            data = server.recv(left)
            if not data:
                return False
            client.sendall(data)
            self.passed[number] += len(data)
        return length is None or self.passed[number] < length


def _shut(client: socket.socket) -> None:
    try:
        client.shutdown(socket.SHUT_RDWR)
    except OSError:  # it ended by itself
        return
