"""Take a parent's connections away from its forked child.

Links register here. For the server, a socket lives as long as any process has it open. If a child
kept the socket of a waiter, the waiter would seem alive after its process was killed.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class _HasSocket(Protocol):
    def fileno(self) -> int:
        """Return the descriptor of the socket, or -1."""


_open: weakref.WeakSet[_HasSocket] = weakref.WeakSet()


def close_in_children(link: _HasSocket) -> None:
    """Close the socket of `link` in every child that is forked while it is open."""
    _open.add(link)


def _after_fork() -> None:
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for link in list(_open):
        descriptor = link.fileno()
        if descriptor >= 0:
            # Not closed but replaced: whoever closes it later must not hit another file. And no
            # shutdown, which would end the parent's connection as well.
            os.dup2(nothing, descriptor, inheritable=False)
    _open.clear()
    os.close(nothing)


os.register_at_fork(after_in_child=_after_fork)
