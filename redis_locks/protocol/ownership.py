"""What the nested holds of one thread or task have in common, and where they find it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Final

from redis_locks.protocol.leases import Lease
from redis_locks.protocol.renewal.renewer import Renewer
from redis_locks.values import modes
from redis_locks.values.local_locks import Held

_NOBODY: Final = Held()
"""Who has what no acquire is to find."""

_NO_HOLDS: Final[list[int]] = []


class Tenure:
    """Locks that one thread or task has, by one acquire and the holds nested in it.

    The last hold to leave releases the locks.
    """

    _open = _NO_HOLDS
    _server: object = None
    _held = _NOBODY

    def __init__(self, lease: Lease, renewer: Renewer) -> None:
        self.lease = lease
        self.renewer = renewer
        """Who renews the lease, or at least watches it end."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its locks."""
        return self.lease.request.names

    @property
    def mode(self) -> str:
        """How it has them: "exclusive", "shared" or "permit:CAPACITY"."""
        return self.lease.mode

    @property
    def intents(self) -> frozenset[str]:
        """Those of the names of which it has the intent only."""
        return frozenset(self.names[: modes.intents_in(self.lease.request.mode)])

    def begin(self, hold: object, held: Held | None = None, server: object = None) -> None:
        """Add the first hold; let later acquires of the thread or task that has `held`, if given, find it."""
        self._open = [id(hold)]
        if held is None:
            return
        if watch is not None:
            watch(self, held, server)
        self._held, self._server = held, server
        for name in self.lease.request.names:
            place = server, name
            if place in held:
                held.cover(place)
            held[place] = self

    def find_in(self, held: Held) -> None:
        """Let acquires of the thread or task that has `held` find it, and no others."""
        if held is self._held:
            return
        self._held.discard(self)
        self.forget()
        self._held = held
        for name in self.lease.request.names:
            place = self._server, name
            if place in held:
                held.cover(place)
            held[place] = self

    def has(self, server: object, name: str) -> bool:
        """Whether it has that lock of that server, and is to be found there."""
        return self._server is server and name in self.lease.request.names

    def includes(self, hold: object) -> bool:
        """Whether the hold is one of its open ones."""
        return id(hold) in self._open

    def join(self, hold: object) -> bool:
        """Add a hold; False if the last one has left already, in another thread perhaps."""
        with _mutex:
            if self._open:
                self._open.append(id(hold))
            return bool(self._open)

    def leave_alone(self, hold: object) -> bool:
        """Take a hold out, if it is in and no other is; whether that was done. Then it is to `end`."""
        with _mutex:
            if self._open != [id(hold)]:
                return False
            self._open.clear()
        return True

    def end(self) -> None:
        """Let no later acquire find it, and nobody renew its lease."""
        # As `forget`.
        held, server = self._held, self._server
        for name in self.lease.request.names:
            place = server, name
            if held.get(place) is self:
                held.pop(place, None)  # another thread may do the same
                if held.others:
                    held.uncover(place)
        self.renewer.discard(self.lease)

    def leave(self, hold: object) -> bool:
        """Take a hold out, if it is in; True if no other is."""
        with _mutex:
            if id(hold) in self._open:
                self._open.remove(id(hold))
            last = not self._open
        if last:
            self.forget()
        return last

    @property
    def is_shared(self) -> bool:
        """Whether several holds are open."""
        return len(self._open) > 1

    @property
    def is_held(self) -> bool:
        """Whether its locks are held still."""
        return bool(self._open) and not self.lease.ended and not self.lease.is_over()

    def forget(self) -> None:
        """Let no later acquire find it."""
        held, server = self._held, self._server
        for name in self.lease.request.names:
            place = server, name
            if held.get(place) is self:
                held.pop(place, None)  # another thread may do the same
                if held.others:
                    held.uncover(place)


watch: Callable[[Tenure, Held, object], None] | None = None
"""Told of each new tenure, what its thread or task had before, and the server; None: nobody looks."""


def find(held: Held, server: object, names: Iterable[str]) -> set[Tenure]:
    """Return what holds any of these locks."""
    found = set()
    for name in names:
        tenure = held.get((server, name))
        if tenure is not None and tenure.is_held:
            found.add(tenure)
    return found


# Guards a few instructions; reentrant, for a signal's handler may come in between.
_mutex = threading.RLock()


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603 - another thread of the parent may have had it
    _mutex = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
