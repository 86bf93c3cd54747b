"""A thread that listens on a connection which sends no commands.

`ThreadRenewer` learns from it at once that a hold was force-released. `shared_subscription`
receives grants with it, for threads that wait without a connection of their own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol, Self
from weakref import WeakSet, WeakValueDictionary

from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import LinkBroken, OutOfTime
from redis_locks.drivers.time_limits import seconds_left
from redis_locks.exceptions import LockBackendError
from redis_locks.values.interrupts import is_interrupt

logger = logging.getLogger("redis_locks")

PAUSES: Final = (0.0, 0.05, 0.25, 1.0)
"""Seconds to pause before each attempt to connect again; the last one from then on."""

SILENCE: Final = 30.0
"""Seconds without a message after which a connection is tested: a router may have forgotten it,
which it does not say.
"""


class Subscription(Protocol):
    """A connection that receives messages, such as the tokens that do not hold any more."""

    @property
    def address(self) -> Address | None:
        """The host and port that it is connected to; None: a path."""

    def deliver_messages(
        self, receiver: Callable[[str], None], silence: float | None = None
    ) -> None:
        """Call `receiver` with each message, until the connection breaks: raises LinkBroken.

        Returns after `silence` seconds without one (None: never), once it has asked the server for
        a sign of life; a second silence without that is a broken connection.
        """

    def close(self) -> None:
        """Close the connection, from another thread perhaps."""


class Pin:
    """Keeps a listener thread open until its block ends, or until nothing refers to the pin.

    The second also covers a block that was interrupted before it began.
    """

    def __init__(self, thread: ListenerThread) -> None:
        self._thread = thread
        thread.pins.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Need it no more."""
        self._thread.pins.discard(self)


class ListenerThread:
    """Listens, in a thread of its own, from `open` to `close`; connects again by itself.

    Args:
        connect: Opens a link; raises LinkBroken or LockBackendError.
        receiver: Gets each message, in that thread.
        reconnected: Is called after the connection was gone for a while: messages may have been
            lost.
        silence: In place of `SILENCE`.
        over: Is called then; it returns True if it has closed the thread because nobody needs it.
    """

    def __init__(
        self,
        connect: Callable[[], Subscription],
        receiver: Callable[[str], None],
        reconnected: Callable[[], None],
        *,
        silence: float | None = None,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._connect = connect
        self._receiver = receiver
        self._reconnected = reconnected
        self._silence = silence
        self._over = over
        self._link: Subscription | None = None
        self.pins: WeakSet[Pin] = WeakSet()
        """The blocks that need it open. It stays open while there is one."""
        self.retry_at = 0.0
        """When to try to open it at the earliest."""
        self._closing = threading.Event()
        self._failed_at, self._failure = 0.0, ""
        # Re-entrant: the handler of a signal may come in between.
        self._opening = threading.RLock()
        # Guards a few instructions: else a new connection could outlive the call that closes.
        self._mutex = threading.RLock()
        _THREADS[id(self)] = self

    @property
    def is_open(self) -> bool:
        """Whether it listens, or tries to."""
        return self._link is not None

    def open(self, since: float | None = None, patience: float = threading.TIMEOUT_MAX) -> None:
        """Listen from now on; blocks for two round trips, or until another thread has opened it.

        `since`: when the caller began to wait for it; not given: now. If an attempt has failed
        after that, it fails, too. `patience`: seconds to wait for another thread. Raises LinkBroken
        or LockBackendError, or RuntimeError when no thread can be started.
        """
        if self._link is not None:
            return
        since = monotonic() if since is None else since
        # Another thread may be opening it, which takes as long as that one has.
        if not self._opening.acquire(timeout=seconds_left(patience)):
            raise OutOfTime("another thread is connecting still")
        try:
            if self._link is not None:
                return
            if since < self._failed_at:
                raise LinkBroken(self._failure)
            closing = threading.Event()
            try:
                link = self._connected(closing)
                if link is not None:  # else a signal's handler has opened it, in this thread
                    threading.Thread(
                        target=self._run,
                        args=(link, closing),
                        name="redis_locks-listener",
                        daemon=True,
                    ).start()
            except BaseException as error:
                self._end(closing)
                if isinstance(error, (LinkBroken, LockBackendError)):
                    self._failed_at, self._failure = monotonic(), str(error)
                raise
        finally:
            self._opening.release()

    def try_to_open(self, patience: float = threading.TIMEOUT_MAX) -> bool:
        """Try to listen from now on, and return whether that works; see `open` and `retry_at`."""
        try:
            self.open(patience=patience)
        except (LinkBroken, LockBackendError):
            pass
        except Exception as error:  # from the user's credential provider, perhaps
            if is_interrupt(error):
                raise
            if not isinstance(error, RuntimeError):  # of a thread that cannot be started
                logger.exception("Cannot listen to Redis; trying again")
        else:
            return True
        self.retry_at = monotonic() + PAUSES[-1]
        return False

    def close(self) -> None:
        """Listen no more, unless there are `pins`; the thread ends."""
        if not self.pins:
            self._end(self._closing)

    def _end(self, closing: threading.Event) -> None:
        """Let the thread that has `closing` end, and its connection.

        An interrupt may have kept the thread from starting.
        """
        closing.set()
        with self._mutex:
            if self._closing is not closing:
                return
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def connect_again(self, left: Address | None = None) -> None:
        """Connect anew, if it is open, as if the connection had broken.

        Given an address, only if the connection leads there.
        """
        link = self._link
        if link is not None and left in {None, link.address}:
            link.close()

    def _run(self, link: Subscription, closing: threading.Event) -> None:
        while True:
            try:
                link.deliver_messages(self._receiver, self._silence or SILENCE)
            except LinkBroken:
                if closing.is_set():
                    return
            except Exception:  # the link is closed: go on as if it had broken
                logger.exception("What Redis said could not be passed on; connecting again")
            else:
                if self._over():
                    return
                continue
            again = self._connect_again(closing)
            if again is None:
                return
            link = again
            self._reconnected()

    def _connect_again(self, closing: threading.Event) -> Subscription | None:
        failures = 0
        while not closing.wait(PAUSES[min(failures, len(PAUSES) - 1)]):
            try:
                return self._connected(closing)
            except (LinkBroken, LockBackendError):
                pass
            except Exception:
                logger.exception("Cannot listen to Redis; trying again")
            failures += 1
        return None

    def _connected(self, closing: threading.Event) -> Subscription | None:
        """Return a new link, which is ours until `closing` is set.

        None if `closing` is set, or if the listener is open by another way.
        """
        link = self._connect()
        with self._mutex:
            opened = self._link is not None and self._closing is not closing
            if not (closing.is_set() or opened):
                self._link, self._closing = link, closing
                return link
        link.close()
        return None


_THREADS: WeakValueDictionary[int, ListenerThread] = WeakValueDictionary()


def connect_all_again(left: Address) -> None:
    """Let all listeners on one server connect anew.

    Listeners that a demoted primary keeps would hear of no grant.
    """
    for reference in _THREADS.valuerefs():
        thread = reference()
        if thread is not None:
            thread.connect_again(left)


# Registered before the hooks of those that make others there. Another thread of the parent may have
# a mutex of these.
os.register_at_fork(after_in_child=_THREADS.clear)
