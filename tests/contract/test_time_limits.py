"""What a signal's handler raises reaches the caller as it is, at whatever point of a wait.

An error of the connection's own does not.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from redis_locks import Lock, LockBackendError
from redis_locks.signals import lock_contended
from redis_locks.testing.server import EmbeddedServer
from tests.support.breakers import stopped
from tests.support.interrupts import KINDS
from tests.support.world import PATIENCE, Observer, Threads, granted, held, until

LEASE = 30

RAISES = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


class Alarm:
    """Interrupts this thread, once, as soon as something is true."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.error = kind("the request took too long")

    @contextmanager
    def when(self, due: Callable[[], object], after: Callable[[], object] = bool) -> Iterator[None]:
        """Interrupt the block when `due()` is true, and then call `after`.

        The block has to raise the very exception.
        """
        main = threading.get_ident()

        def ring() -> None:
            until(due)
            signal.pthread_kill(main, signal.SIGUSR1)
            time.sleep(0.2)  # the handler's time to raise, before the server may answer
            after()

        before = signal.signal(signal.SIGUSR1, self._raise)
        thread = threading.Thread(target=ring)
        thread.start()
        try:
            with pytest.raises(type(self.error)) as caught:
                yield
        finally:
            thread.join()
            signal.signal(signal.SIGUSR1, before)
        assert caught.value is self.error

    def _raise(self, number: int, frame: object) -> None:
        raise self.error


def asleep() -> Callable[[], bool]:
    """Return what is true once this thread has had the time to wait for the server."""
    since = time.monotonic()
    return lambda: time.monotonic() - since > 0.3


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def mute() -> Iterator[str]:
    """The URL of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"


def works(lock: Lock) -> None:
    """Another cycle gets its own replies, and the lock."""
    with lock as hold:
        hold.extend(LEASE)
        assert not hold.is_lost


@RAISES
@pytest.mark.parametrize("brief_waits", [0, 3], ids=["aloud", "silently"])
def test_while_it_waits_for_a_holder(
    kind: type[BaseException], brief_waits: int, threads: Threads, name: str, server_side: Observer
) -> None:
    lock = Lock(name, lease=LEASE, wait=PATIENCE)
    for _ in range(brief_waits):  # after which the next question wants no reply
        hold = held(threads, lock)
        thread = threading.Thread(
            target=lambda hold=hold: (
                until(lambda: server_side.waiters(name)),
                threads.release(hold),
            )
        )
        thread.start()
        with lock:
            thread.join()
    hold = held(threads, lock)
    with Alarm(kind).when(lambda: server_side.waiters(name) == 1), lock:
        pass
    assert 0 == server_side.waiters(name)
    threads.release(hold)
    works(lock)


@RAISES
def test_while_a_receiver_runs(
    kind: type[BaseException], threads: Threads, name: str, server_side: Observer
) -> None:
    lock = Lock(name, lease=LEASE, wait=PATIENCE)
    hold = held(threads, lock)
    runs = threading.Event()

    def receiver(**_: object) -> None:
        runs.set()
        time.sleep(PATIENCE)

    lock_contended.connect(receiver)
    try:
        with Alarm(kind).when(runs.is_set), lock:
            pass
    finally:
        lock_contended.disconnect(receiver)
    assert 0 == server_side.waiters(name)
    threads.release(hold)
    works(lock)


@RAISES
def test_while_the_server_hangs(
    kind: type[BaseException], name: str, private_server: EmbeddedServer
) -> None:
    lock = Lock(name, using=private_server.url, lease=LEASE, wait=PATIENCE)
    works(lock)
    with stopped(private_server) as go_on, Alarm(kind).when(asleep(), go_on), lock:
        pass
    works(lock)


@RAISES
def test_while_it_connects(kind: type[BaseException], name: str, mute: str) -> None:
    with Alarm(kind).when(asleep()), Lock(name, using=mute, wait=PATIENCE):
        pass


@RAISES
def test_while_it_asks_a_sentinel(kind: type[BaseException], name: str, mute: str) -> None:
    url = mute.replace("redis://", "redis+sentinel://") + "/mymaster"
    with Alarm(kind).when(asleep()), Lock(name, using=url, wait=PATIENCE):
        pass


@RAISES
def test_while_it_releases(
    kind: type[BaseException], name: str, private_server: EmbeddedServer
) -> None:
    lock = Lock(name, using=private_server.url, lease=LEASE, wait=PATIENCE)
    hold = granted(lock.acquire())
    with stopped(private_server) as go_on, Alarm(kind).when(asleep(), go_on):
        hold.release()
    with suppress(LockBackendError):
        hold.release()
    works(lock)


def test_a_time_out_of_the_connection_is_no_interrupt(name: str, mute: str) -> None:
    try:
        raise TimeoutError("an earlier time limit")
    except TimeoutError:
        with pytest.raises(LockBackendError, match="cannot be reached"):
            Lock(name, using=f"{mute}?socket_timeout=0.3", wait=0).acquire()
