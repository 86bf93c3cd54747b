"""A proxy between a client and the server that loses a reply: the command runs, its answer never arrives."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on a unix socket of its own; `lose(n)` closes the connection instead of the n-th reply from now.

    Only replies to EVALSHA and EVAL count, so that connecting and subscribing is left alone.
    """

    def __init__(self, server_url: str) -> None:
        self._server = server_url.removeprefix("unix://").partition("?")[0]
        self._directory = tempfile.TemporaryDirectory(prefix="rl-proxy-", dir="/tmp")
        self._path = str(Path(self._directory.name, "p.sock"))
        self.url = f"unix://{self._path}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen()
        self._lock = threading.Lock()
        self._until_loss = 0
        self._losses = 1
        self._sockets: list[socket.socket] = []
        self.lost = 0

    def lose(self, position: int = 1, *, losses: int = 1) -> None:
        """Lose `losses` replies in a row, beginning with reply number `position` from now."""
        with self._lock:
            self._until_loss, self._losses, self.lost = position, losses, 0

    def _loses_now(self) -> bool:
        with self._lock:
            if not self._until_loss:
                return False
            self._until_loss -= 1
            if self._until_loss:
                return False
            self.lost += 1
            if self.lost < self._losses:
                self._until_loss = 1
            return True

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
        for each in self._sockets:
            _close(each)
        self._directory.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._server)
            self._sockets += [near, far]
            pending: list[bool] = []
            threading.Thread(target=self._requests, args=(near, far, pending), daemon=True).start()
            threading.Thread(target=self._replies, args=(near, far, pending), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket, pending: list[bool]) -> None:
        while data := _read(near):
            if b"EVAL" in data and self._loses_now():
                pending.append(True)
            try:
                far.sendall(data)
            except OSError:
                break
        _close(near, far)

    def _replies(self, near: socket.socket, far: socket.socket, pending: list[bool]) -> None:
        while data := _read(far):
            if pending and not data.startswith(b"-NOSCRIPT"):
                break  # the command ran; its reply is lost
            try:
                near.sendall(data)
            except OSError:
                break
        _close(near, far)


def _read(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
