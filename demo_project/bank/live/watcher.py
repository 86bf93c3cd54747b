"""The waiters of a race, as the locks' own listing shows them again and again."""

from __future__ import annotations

from dataclasses import dataclass

from redis_locks import inspection
from redis_locks.inspection import HolderInfo, WaiterInfo
from redis_locks.inspection.blockers import blocked

_THREAD = "thread "


@dataclass(frozen=True)
class Moment:
    """The longest queue that was seen: who held the lock, and who waited, in order."""

    lock: str
    holder: str
    queue: tuple[str, ...]


class Watcher:
    """Looks at one lock and remembers who was seen waiting for whom."""

    def __init__(self, lock_name: str) -> None:
        self._lock_name = lock_name
        self._seen: dict[str, dict[str, None]] = {}
        self.fullest: Moment | None = None

    def look(self) -> None:
        """Take a snapshot; blocks for a round trip.

        Raises:
            LockBackendError: Redis could not be asked.
        """
        lock = inspection.lock(self._lock_name)
        pairs = blocked([lock] if lock else [])
        for pair in pairs:
            self._seen.setdefault(_name(pair.waiter), {})[_name(pair.holder)] = None
        if lock and pairs and len(pairs) > len(self.fullest.queue if self.fullest else ()):
            queue = tuple(_name(pair.waiter) for pair in pairs)
            self.fullest = Moment(lock.name, _name(pairs[0].holder), queue)

    def waited_for(self, waiter: str) -> tuple[str, ...]:
        """Return whom the waiter was seen waiting for, first one first."""
        return tuple(self._seen.get(waiter, ()))


def _name(party: HolderInfo | WaiterInfo) -> str:
    return party.unit.removeprefix(_THREAD)
