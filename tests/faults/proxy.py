"""A proxy before the server: it loses replies, holds traffic back, cuts and delays it."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import until

_LOCKS = (b"EVAL", b"\r\nNX\r\n")


class Proxy:
    """Listens on a unix socket of its own and passes everything on, unless told otherwise.

    Args:
        server_url: The server, on a unix socket.
        counted: What has one of these words is a command of which `lose` loses the reply: scripts
            and SET NX, so that connecting and subscribing are left alone.
    """

    def __init__(self, server_url: str, counted: tuple[bytes, ...] = _LOCKS) -> None:
        self._server = _path_of(server_url)
        self._counted = counted
        self._directory = tempfile.TemporaryDirectory(prefix="rl-proxy-", dir="/tmp")
        self._path = str(Path(self._directory.name, "p.sock"))
        self.url = f"unix://{self._path}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(128)
        self._lock = threading.Lock()
        self._until_loss = 0
        self._every: int | None = None
        self._losses = 1
        self._then_to: str | None = None
        self._late = False
        self._requests_pass = threading.Event()
        self._requests_pass.set()
        self._swallows = False
        self._pipes: set[Pipe] = set()
        self.delay = 0.0
        """Seconds by which each request is late."""
        self.drip = 0.0
        """Seconds between two bytes of what the server sends; 0: it passes at once."""
        self.lost = 0
        """How many replies were lost since the last `lose`."""
        self.held_back = 0
        """How many pieces of requests wait for `let_go`."""
        self.taken = 0
        """How many connections clients have opened."""

    def lose(
        self,
        position: int = 1,
        *,
        losses: int = 1,
        every: int | None = None,
        then_to: str | None = None,
        late: bool = False,
    ) -> None:
        """Lose replies: the command runs, then the connection closes before its answer.

        Args:
            position: Which reply from now is the first to be lost; 0 stops losing.
            losses: How many are lost in a row.
            every: Begin again with so many replies in between, until told otherwise.
            then_to: The server to which it leads as soon as a reply is lost, as `lead_to` does.
            late: The client's connection closes at once, and the server gets the command when
                `deliver` is called, or never.
        """
        with self._lock:
            self._until_loss, self._losses, self._every, self.lost = position, losses, every, 0
            self._then_to, self._late = then_to, late

    def deliver(self) -> int:
        """Let the server run the commands that come late; return how many it ran."""
        late = [pipe for pipe in list(self._pipes) if pipe.late]
        for pipe in late:
            command, pipe.late = pipe.late, b""
            with contextlib.suppress(OSError):
                pipe.far.sendall(command + b"PING\r\n")  # it may have asked for no reply
        until(lambda: not self._pipes.intersection(late))
        return len(late)

    def hold_back(self) -> None:
        """Keep what clients send until `let_go`; what the server sends still passes."""
        self._requests_pass.clear()

    def let_go(self) -> None:
        """Deliver what was held back, and pass requests on again."""
        self.held_back = 0
        self._requests_pass.set()

    def cut(self) -> None:
        """Close every connection."""
        for pipe in list(self._pipes):
            pipe.close()

    def lead_to(self, server_url: str) -> None:
        """Close every connection, and lead new ones to another server."""
        self._server = _path_of(server_url)
        self.cut()

    def part(self) -> None:
        """Swallow everything in both directions; connections stay open, and new ones are taken."""
        self._swallows = True

    def forget(self, sent: bytes) -> None:
        """Close the server's end of connections that began with `sent`; clients hear nothing more.

        So does a router that forgets connections on which nobody says anything for a while.
        """
        for pipe in list(self._pipes):
            if sent in pipe.began:
                pipe.forgotten = True
                with contextlib.suppress(OSError):
                    pipe.far.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """End `part`: close connections that lost something, as a router that forgot them does."""
        self._swallows = False
        for pipe in list(self._pipes):
            if pipe.swallowed:
                pipe.close()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._requests_pass.set()
        self.cut()
        self._directory.cleanup()

    def _loses_now(self) -> bool:
        with self._lock:
            if not self._until_loss:
                return False
            self._until_loss -= 1
            if self._until_loss:
                return False
            self.lost += 1
            if self._every is not None:
                self._until_loss = self._every
            elif self.lost < self._losses:
                self._until_loss = 1
            return True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            pipe = Pipe(near)
            self._pipes.add(pipe)
            self.taken += 1
            threading.Thread(target=self._requests, args=(pipe,), daemon=True).start()

    def _requests(self, pipe: Pipe) -> None:
        try:
            pipe.far.connect(self._server)
        except OSError:  # the server is down: so are we
            self._end(pipe)
            return
        threading.Thread(target=self._replies, args=(pipe,), daemon=True).start()
        while data := _read(pipe.near):
            pipe.began = (pipe.began + data)[:4096]
            if self._drops(pipe):
                continue
            self._hold_up()
            self._lose_the_reply(pipe, data)
            if pipe.is_late:
                return
            try:
                pipe.far.sendall(data)
            except OSError:
                break
        self._end(pipe)

    def _hold_up(self) -> None:
        """Wait while requests are held back, and for as long as each is late."""
        if not self._requests_pass.is_set():
            self.held_back += 1
            self._requests_pass.wait()
        if self.delay:
            time.sleep(self.delay)

    def _drops(self, pipe: Pipe) -> bool:
        """Decide whether what comes on a connection now is swallowed."""
        pipe.swallowed = pipe.swallowed or self._swallows
        return self._swallows or pipe.forgotten

    def _lose_the_reply(self, pipe: Pipe, data: bytes) -> None:
        """Note it if this is a request whose reply is to be lost."""
        if any(word in data for word in self._counted) and self._loses_now():
            if self._late:
                _shut(pipe.near)
                pipe.is_late, pipe.late = True, data
            else:
                pipe.loses_next = True

    def _replies(self, pipe: Pipe) -> None:
        while data := _read(pipe.far):
            if pipe.late or self._drops(pipe):
                continue
            if pipe.loses_next and not data.startswith(b"-NOSCRIPT"):
                # The command ran; its reply is lost.
                if self._then_to is not None:
                    self.lead_to(self._then_to)
                break
            try:
                self._pass_back(pipe.near, data)
            except OSError:
                break
        if not pipe.forgotten:
            self._end(pipe)

    def _pass_back(self, near: socket.socket, data: bytes) -> None:
        while self.drip and data:
            near.sendall(data[:1])
            data = data[1:]
            time.sleep(self.drip)
        near.sendall(data)

    def _end(self, pipe: Pipe) -> None:
        pipe.close()
        self._pipes.discard(pipe)


class Pipe:
    """One client's connection and ours to the server for it."""

    def __init__(self, near: socket.socket) -> None:
        self.near = near
        self.far = socket.socket(socket.AF_UNIX)
        self.loses_next = self.is_late = False
        self.late = b""
        """What the server has yet to get, although the client has gone."""
        self.swallowed = self.forgotten = False
        self.began = b""
        """What its client sent first."""

    def close(self) -> None:
        _shut(self.near)
        _shut(self.far)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _path_of(url: str) -> str:
    return url.removeprefix("unix://").partition("?")[0]


def _read(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""
