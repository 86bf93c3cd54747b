"""Close connections that nobody has used for a minute.

One thread does so for all pools of a process, while any has a connection.
"""

from __future__ import annotations

import os
import threading
from typing import Final, Protocol
from weakref import WeakSet

IDLE: Final = 60.0
"""Seconds without use after which a connection is closed; up to `1 / LOOKS` of them more."""

LOOKS: Final = 4
"""How often the thread looks at each idle connection within `IDLE` seconds."""


class Pool(Protocol):
    """Connections of the threads of a process to one server."""

    @property
    def has_open(self) -> bool:
        """Whether any connection is open."""

    def close_idle(self) -> None:
        """Count a look at each idle connection; close those with over `LOOKS`, oldest first."""


class Reaper:
    """Looks at all pools, in a thread of its own.

    Pools do not look themselves: a pool that is not used any more has nobody who would.
    """

    def __init__(self) -> None:
        self._pools: WeakSet[Pool] = WeakSet()
        self.reset()

    def reset(self) -> None:
        """Start anew: after a fork, the thread is the parent's."""
        self._mutex = threading.RLock()
        self._runs = False

    def add(self, pool: Pool) -> None:
        """Look at this pool, too, for as long as it is there."""
        with self._mutex:
            self._pools.add(pool)

    def watch(self) -> None:
        """Look at all pools from now on. Called after a connection has been opened."""
        if self._runs:
            return
        with self._mutex:
            if not self._runs:
                self._runs = self._started()

    def _started(self) -> bool:
        thread = threading.Thread(target=self._run, name="redis_locks-idle", daemon=True)
        try:
            thread.start()
        except (
            RuntimeError
        ):  # no more threads can start, or the process ends: the next connection tries again
            return False
        return True

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(IDLE / LOOKS)
            self._look()
            with self._mutex:
                # In this order: who saw the thread still had opened the connection before this.
                self._runs = False
                if not any(pool.has_open for pool in self._pools):
                    return
                self._runs = True

    def _look(self) -> None:
        with self._mutex:
            pools = list(self._pools)
        for pool in pools:
            pool.close_idle()


reaper: Final = Reaper()
"""That of this process."""

os.register_at_fork(after_in_child=reaper.reset)
