"""What one thread or task has: where later acquires find it, and all that is open."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

Place = tuple[object, str]
"""A server and the name of a lock."""


class Held(dict[Place, Any]):
    """The leases of one thread or task by place; of several at one place the latest.

    To take and release a lock costs the same however many there are, so that the ten thousandth costs as much
    as the first. Only the end of a lease that covered another one looks through what is open.
    """

    __slots__ = ("open", "party", "stack")

    def __init__(self, party: Hashable, stack: object = None) -> None:
        super().__init__()
        self.party = party
        """What is equal only for the thread or task whose they are."""
        self.stack = party if stack is None else stack
        """What stands for the open blocks of one thread, task or ``sync_to_async`` call: the same object for all of them."""
        self.open: dict[Any, None] = {}
        """All leases that somebody has yet to leave, the latest last: lost ones, and those found nowhere, too."""

    def uncover(self, place: Place) -> None:
        """Let the latest other lease of the lock at `place` be found there again, if it is held still."""
        server, name = place
        for lease in reversed(list(self.open)):  # a copy: another thread may leave one
            if lease.is_held and lease.has(server, name):
                self.setdefault(place, lease)  # the thread or task may have taken it anew
                return

    def has_any(self) -> bool:
        """Whether anything is held still. Forgets what has ended elsewhere: see `_Process.session_of`."""
        while True:
            try:
                # The latest first, which most likely is held.
                held = any(lease.is_held for lease in reversed(self.open))
                break
            except RuntimeError:
                continue  # another thread has just left one
        if not held:
            for lease in list(self.open):
                if not lease.is_open:
                    lease.forget(self)
        return held

    def copy_to(self, other: Held) -> None:
        """Let `other` have what is open still, too."""
        other.update((place, lease) for place, lease in self.copy().items() if lease.is_held)
        other.open.update((lease, None) for lease in list(self.open) if lease.is_open)
