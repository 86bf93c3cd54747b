"""A way to the server that can be cut, and can lose a reply."""

from __future__ import annotations

import select
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import redis
from redis.connection import parse_url

_CHUNK = 65_536
_UNBOUNDED = 2**31


class _End:
    """One end of a link: its socket, and what this has not taken yet."""

    def __init__(self, end: socket.socket, *, is_client: bool) -> None:
        end.setblocking(False)  # noqa: FBT003 - the standard library's own
        self._socket = end
        self._rest = bytearray()
        self.is_client = is_client
        self.other = self
        # Requests set this at the client's end: the next reply is lost.
        self.loses_reply = False

    def fileno(self) -> int:
        """What `select` needs."""
        return self._socket.fileno()

    @property
    def is_full(self) -> bool:
        """Whether it has to be written to again."""
        return bool(self._rest)

    def receive(self) -> bytes | None:
        """What has come; nothing if the other side has hung up, None if nothing came after all."""
        try:
            return self._socket.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            return b""

    def send(self, chunk: bytes = b"") -> None:
        """Pass on as much as the socket takes, and keep the rest."""
        self._rest += chunk
        with suppress(OSError):
            del self._rest[: self._socket.send(self._rest)]

    def shut(self) -> None:
        """Hang up; another thread may do this."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, and leave the socket."""
        self.shut()
        self._socket.close()


class Proxy:
    """A unix socket in front of a server; use it in a ``with`` block.

    One thread carries everything.

    Args:
        url: The address of the server.
        path: Where the socket is to be.
    """

    def __init__(self, url: str, path: str) -> None:
        # The pool counts all that it has ever made: by its own limit of 100, the proxy would soon
        # end.
        self._servers = redis.ConnectionPool.from_url(url, max_connections=_UNBOUNDED)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._alarm, self._bell = socket.socketpair()
        self._thread = threading.Thread(target=self._carry, name="proxy", daemon=True)
        self._lock = threading.Lock()
        self._ends: set[_End] = set()
        self._lost_word = b""
        self._every = 0
        self._seen = 0
        self._lost = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bell.close()
        self._thread.join()
        self._listener.close()
        self._alarm.close()

    @property
    def lost(self) -> int:
        """How many replies were lost."""
        return self._lost

    def cut(self) -> None:
        """Cut all connections; new ones work."""
        with self._lock:
            for end in self._ends:
                end.shut()

    def lose_replies(self, word: bytes, every: int = 0) -> None:
        """Deliver requests that contain `word`, and cut their connection before the reply.

        Args:
            word: What such a request contains.
            every: Lose each so-many-th of these replies; 0 loses the first one only.
        """
        with self._lock:
            self._lost_word, self._every, self._seen = word, every, 0

    def _carry(self) -> None:
        while True:
            full = [end for end in self._ends if end.is_full]
            sources: list[socket.socket | _End] = [self._alarm, *self._ends]
            if self._listener.fileno() >= 0:
                sources.append(self._listener)
            readable, writable, _ = select.select(sources, full, [])
            for source in readable:
                if source is self._alarm:
                    self._hang_up(*self._ends)
                    return
                if isinstance(source, _End):
                    self._read(source)
                else:
                    self._accept()
            for end in writable:
                end.send()

    def _accept(self) -> None:
        client = _End(self._listener.accept()[0], is_client=True)
        try:
            # redis-py opens the connection, TLS and all, and the client's own commands log in.
            link: Any = self._servers.make_connection()
            server = _End(link._connect(), is_client=False)  # noqa: SLF001 - redis-py's has no public name
        except (OSError, redis.ConnectionError):
            # Whoever connects from now on is told at once that there is no server.
            client.close()
            self._listener.close()
            return
        client.other, server.other = server, client
        with self._lock:
            self._ends |= {client, server}

    def _read(self, source: _End) -> None:
        if source not in self._ends:  # hung up a moment ago
            return
        chunk = source.receive()
        if chunk is None:
            return
        if source.is_client:
            source.loses_reply |= self._is_lost(chunk)
        elif source.other.loses_reply:
            # The server has done what it was asked for.
            self._lost += 1
            self._hang_up(source)
            return
        if chunk:
            source.other.send(chunk)
        else:
            self._hang_up(source)

    def _hang_up(self, *ends: _End) -> None:
        with self._lock:
            for end in ends:
                self._ends -= {end, end.other}
                end.close()
                end.other.close()

    def _is_lost(self, request: bytes) -> bool:
        with self._lock:
            if not self._lost_word or self._lost_word not in request:
                return False
            self._seen += 1
            if not self._every:
                self._lost_word = b""
                return True
            return self._seen % self._every == 0


@contextmanager
def proxy_for(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy for the server at an address, and the address to connect to instead."""
    with _place_for_socket() as path, Proxy(url, path) as proxy:
        credentials, at, _ = urlsplit(url).netloc.rpartition("@")
        database = parse_url(url).get("db", 0)  # type: ignore[no-untyped-call]
        yield proxy, f"unix://{credentials}{at}{path}?db={database}"


@contextmanager
def _place_for_socket() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="bank-") as directory:
        yield str(Path(directory, "p.sock"))
