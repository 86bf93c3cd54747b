"""Hearing at once that a hold was force-released: one thread of a process, while it holds for long.

Code that awaits needs none: the connection of its event loop hears everything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from redis_locks.drivers.base import LinkBroken
from redis_locks.exceptions import LockBackendError

PAUSES: Final = (0.0, 0.05, 0.25, 1.0)
"""Seconds to pause before each attempt to connect again; the last one from then on."""


class HearingLink(Protocol):
    """A connection that hears which tokens do not hold any more."""

    def hear(self, heard: Callable[[str], None]) -> None:
        """Call `heard` with each such token, until the connection breaks: raises LinkBroken."""

    def close(self) -> None:
        """Close the connection, from another thread perhaps."""


class Ear:
    """Listens, in a thread of its own, from `open` to `close`; connects again by itself.

    Args:
        connect: Opens a link; raises LinkBroken or LockBackendError.
        heard: Gets each token that does not hold any more, in that thread.
        deaf: Is called when the connection was gone for a while: something may have been missed.
    """

    def __init__(
        self,
        connect: Callable[[], HearingLink],
        heard: Callable[[str], None],
        deaf: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._heard = heard
        self._deaf = deaf
        self._link: HearingLink | None = None
        self.pins = 0
        """How many need it open: it is not closed meanwhile."""
        self.retry_at = 0.0
        """When to try to open it at the earliest."""
        self._closing = threading.Event()

    @property
    def is_open(self) -> bool:
        """Whether it listens, or tries to."""
        return self._link is not None

    def open(self) -> None:
        """Listen from now on; blocks for two round trips. Raises LinkBroken or LockBackendError."""
        if self._link is None:
            self._link = self._connect()
            self._closing = threading.Event()
            threading.Thread(
                target=self._run,
                args=(self._link, self._closing),
                name="redis_locks-ear",
                daemon=True,
            ).start()

    def try_to_open(self) -> None:
        """Listen from now on, if that works; see `retry_at`."""
        try:
            self.open()
        except (LinkBroken, LockBackendError):
            self.retry_at = monotonic() + PAUSES[-1]

    def close(self) -> None:
        """Listen no more, unless `pinned`; the thread ends."""
        if self.pins:
            return
        link, self._link = self._link, None
        self._closing.set()
        if link is not None:
            link.close()

    def _run(self, link: HearingLink, closing: threading.Event) -> None:
        while True:
            try:
                link.hear(self._heard)
            except LinkBroken:
                if closing.is_set():
                    return
            again = self._connect_again(closing)
            if again is None:
                return
            link = again
            self._deaf()

    def _connect_again(self, closing: threading.Event) -> HearingLink | None:
        failures = 0
        while not closing.wait(PAUSES[min(failures, len(PAUSES) - 1)]):
            try:
                link = self._connect()
            except (LinkBroken, LockBackendError):
                failures += 1
                continue
            self._link = link
            if closing.is_set():
                link.close()
            return link
        return None
