"""A proxy that does something bad to EXEC."""

from __future__ import annotations

import socket
import threading
from typing import Literal

from tests.faults.proxy import Pipe, Proxy

Fault = Literal["reply", "request", "held", "cut"]


class ExecProxy(Proxy):
    """As `Proxy`, but what it loses is chosen by `fault`.

    reply: the EXEC runs, its answer never arrives. request: the EXEC never arrives.
    held: the client loses its connection; the EXEC arrives when the test calls `deliver()`.
    cut: as reply, and nobody can connect any more.
    """

    fault: Fault = "reply"

    def __init__(self, server_url: str) -> None:
        super().__init__(server_url)
        self.execs = 0
        self._held: tuple[Pipe, bytes] | None = None
        self._answered = threading.Event()

    def _passes_on(self, pipe: Pipe, data: bytes) -> bool:
        if b"EXEC\r\n" not in data:
            return True
        self.execs += 1
        if not self._loses_now():
            return True
        if self.fault == "request":
            return False
        if self.fault == "held":
            self._hold(pipe, data)
            return False
        if self.fault == "cut":
            self._listener.shutdown(socket.SHUT_RDWR)
        pipe.loses_next = True
        return True

    def _hold(self, pipe: Pipe, data: bytes) -> None:
        self._held = (pipe, data)
        pipe.near.shutdown(socket.SHUT_RDWR)
        self._answered.wait()  # keeps the connection to the server open until then

    def _end(self, pipe: Pipe) -> None:
        super()._end(pipe)
        if self._held is not None and self._held[0] is pipe:
            self._answered.set()

    def deliver(self) -> None:
        """Let the held EXEC arrive; return when the server has answered it."""
        pipe, data = self._held
        pipe.far.sendall(data)
        assert self._answered.wait(10)
