"""A proxy that does something bad to EXEC."""

from __future__ import annotations

import socket
import threading
from typing import Literal

from tests.faults.proxy import Proxy, _close, _read

Fault = Literal["reply", "request", "held", "cut"]


class ExecProxy(Proxy):
    """As `Proxy`, but what it loses is chosen by `fault`.

    reply: the EXEC runs, its answer never arrives. request: the EXEC never arrives.
    held: the client loses its connection; the EXEC arrives when the test calls `deliver()`.
    cut: as reply, and nobody can connect any more.
    """

    fault: Fault = "reply"
    execs = 0

    def _requests(self, near: socket.socket, far: socket.socket, pending: list[bool]) -> None:
        while data := _read(near):
            if b"EXEC\r\n" in data:
                self.execs += 1
                if self._loses_now():
                    if self.fault == "request":
                        break
                    if self.fault == "held":
                        self._held = (far, data, threading.Event())
                        pending.append(True)
                        _close(near)
                        return
                    if self.fault == "cut":
                        self._listener.shutdown(socket.SHUT_RDWR)
                    pending.append(True)
            try:
                far.sendall(data)
            except OSError:
                break
        _close(near, far)

    def _replies(self, near: socket.socket, far: socket.socket, pending: list[bool]) -> None:
        super()._replies(near, far, pending)
        if self.fault == "held" and pending:
            self._held[2].set()

    def deliver(self) -> None:
        """Let the held EXEC arrive; return when the server has answered it."""
        far, data, answered = self._held
        far.sendall(data)
        assert answered.wait(10)
