"""What one thread or task has: where later acquires find it, and whether there is anything."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

Place = tuple[object, str]
"""A server and the name of a lock."""


class Held(dict[Place, Any]):
    """The leases of one thread or task by place; of several at one place the latest.

    The others count when it is asked whether there is anything: who holds something can be part of a deadlock.
    """

    __slots__ = ("others",)

    def __init__(self) -> None:
        super().__init__()
        self.others: list[weakref.ref[Any]] = []
        """Those that were covered by a later one somewhere, or that are found nowhere."""

    def add(self, lease: Any) -> None:
        """Take in what no acquire is to find."""
        self.others = [*self._other_living(), weakref.ref(lease)]

    def cover(self, place: Place) -> None:
        """Keep what is found at `place`: a later one will be."""
        lease = self.get(place)  # which another thread may have released just now
        if lease is not None and lease.is_held:
            self.add(lease)

    def uncover(self, place: Place) -> None:
        """Let what was covered last at `place` be found there again, if it is held still."""
        server, name = place
        for reference in reversed(self._other_living()):
            if (lease := reference()) is not None and lease.has(server, name):
                self.setdefault(place, lease)  # the thread or task may have taken it anew
                return

    def discard(self, lease: Any) -> None:
        """Forget what is covered, or found nowhere."""
        while True:
            try:
                self.others.remove(weakref.ref(lease))
            except ValueError:
                return

    def has_any(self) -> bool:
        """Whether anything is held still. Forgets what has ended elsewhere: see `_Process.session_of`."""
        for place, lease in self.copy().items():
            # A signal's handler may have taken the lock meanwhile.
            if not lease.is_held and self.get(place) is lease:
                with suppress(KeyError):
                    del self[place]
                self.uncover(place)
        return bool(self) or bool(self.others and self._other_living())

    def copy_to(self, other: Held) -> None:
        """Let `other` have what is held still, too."""
        other.update((place, lease) for place, lease in self.copy().items() if lease.is_held)
        other.others.extend(self._other_living())

    def _other_living(self) -> list[weakref.ref[Any]]:
        return [reference for reference in self.others if _lives(reference)]


def _lives(reference: weakref.ref[Any]) -> bool:
    lease = reference()
    return lease is not None and bool(lease.is_held)
