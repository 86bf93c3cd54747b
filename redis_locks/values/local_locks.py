"""What one thread or task has: where later acquires find it, and all that is open."""

from __future__ import annotations

from typing import Any

Place = tuple[object, str]
"""A server and the name of a lock."""


class Held(dict[Place, Any]):
    """The leases of one thread or task by place; of several at one place the latest.

    Each operation takes the same time however many there are, so that the last of ten thousand
    locks costs as much as the first.
    """

    __slots__ = ("open",)

    def __init__(self) -> None:
        super().__init__()
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
        over: list[Any] = []
        while True:
            try:
                # The latest first, which most likely is held.
                for lease in reversed(self.open):
                    if lease.is_held:
                        return True
                    if not lease.is_open:
                        over.append(lease)
                break
            except RuntimeError:  # another thread has just left one
                continue
        for lease in over:
            lease.forget(self)
        return False

    def copy_to(self, other: Held) -> None:
        """Let `other` have what is open still, too."""
        other.update((place, lease) for place, lease in self.copy().items() if lease.is_held)
        other.open.update((lease, None) for lease in list(self.open) if lease.is_open)
