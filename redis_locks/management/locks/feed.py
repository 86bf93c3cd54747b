"""What is read again and again in a thread of its own.

So keys are heard while the server is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from redis_locks.exceptions import LockBackendError

T = TypeVar("T")

_SLOWEST = 30.0
"""Seconds between two tries, at most, while the server cannot be asked."""


@dataclass(frozen=True, slots=True)
class News(Generic[T]):
    """What was known last.

    Attributes:
        value: What was read last; None: nothing yet.
        at: When, by `monotonic`.
        error: Why the latest try has failed; empty: it has not.
        next_try: When the next one begins.
    """

    value: T | None = None
    at: float = 0.0
    error: str = ""
    next_try: float = 0.0

    @property
    def age(self) -> float:
        """Seconds since it was read."""
        return monotonic() - self.at


class Feed(Generic[T]):
    """Calls `read` every `interval` seconds, and less often while the server cannot be asked."""

    def __init__(self, read: Callable[[], T], interval: float) -> None:
        self._read, self._interval = read, interval
        self._news: News[T] = News()
        self._fault: BaseException | None = None
        self._hurry = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="redis_locks-watch", daemon=True)
        self._thread.start()

    @property
    def news(self) -> News[T]:
        """What was known last.

        Raises:
            Exception: Whatever `read` raised that waiting does not mend.
        """
        if self._fault is not None:
            raise self._fault
        return self._news

    def hurry(self) -> None:
        """Read at once: something else is wanted."""
        self._hurry.set()

    def close(self) -> None:
        """End the thread once what it asks is answered; does not wait for that."""
        self._closed = True
        self._hurry.set()

    def _run(self) -> None:
        failures = 0
        while not self._closed:
            self._hurry.clear()
            try:
                value = self._read()
            except LockBackendError as error:
                failures += 1
                pause = min(_SLOWEST, self._interval * 2 ** min(failures, 8))
                self._news = News(self._news.value, self._news.at, str(error), monotonic() + pause)
            except BaseException as error:  # noqa: BLE001 - `news` raises it where somebody sees it
                self._fault = error
                return
            else:
                failures, pause = 0, self._interval
                self._news = News(value, monotonic())
            self._hurry.wait(pause)
