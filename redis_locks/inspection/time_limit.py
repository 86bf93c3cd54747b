"""Questions to the server in threads of their own, for those who cannot wait until it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from redis_locks.connections.backends import Backend, backend_for, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.drivers.resp import pack
from redis_locks.exceptions import LockBackendError

T = TypeVar("T")

ANSWERS_WITHIN: Final = 1.0
"""Seconds in which the server must answer before a page or a command asks it for data."""

_PING = pack((b"PING",))


def in_background(ask: Callable[[], T]) -> Future[T]:
    """Call `ask` once in a thread of its own, which delays no end of the process."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - whoever reads the answer gets it
            answer.set_exception(error)

    threading.Thread(target=run, name="redis_locks-ask", daemon=True).start()
    return answer


def within(seconds: float, ask: Callable[[], T]) -> T | None:
    """Return what `ask` returns.

    None if it fails, also for wrong settings, or takes longer than so many seconds.
    """
    try:
        return in_background(ask).result(seconds)
    except Exception:  # noqa: BLE001 - as said above
        return None


def require_answer(using: str | None, seconds: float = ANSWERS_WITHIN) -> None:
    """Return if the server answers.

    Blocks for so many seconds at most, whatever its own timeouts are.

    So people learn soon that it is the server that does not answer.

    Raises:
        LockBackendError: It does not.
    """
    if backend_for(using).has_server:
        bounded(seconds, partial(blocking_answer, using, _ping), using)


def bounded(seconds: float, ask: Callable[[], T], using: str | None) -> T:
    """Return what `ask` returns, which asks the server; blocks for so many seconds at most.

    Raises:
        LockBackendError: It takes longer. What else `ask` raises comes as it is.
    """
    answer = in_background(ask)
    if not wait([answer], seconds).done:
        msg = f"{backend_for(using).description} has not answered for {seconds:g} s"
        raise LockBackendError(msg)
    return answer.result()


@contextmanager
def silence_told(
    using: str | None, seconds: float, tell: Callable[[str], object]
) -> Iterator[None]:
    """Have a thread tell it, once, if the server does not answer.

    It asks if the block still runs after so many seconds.
    """
    over, until = threading.Event(), monotonic() + seconds

    def watch() -> None:
        try:
            require_answer(using, seconds)
        except LockBackendError as error:
            if not over.wait(until - monotonic()):
                tell(str(error))

    in_background(watch)
    try:
        yield
    finally:
        over.set()


async def _ping(backend: Backend, driver: Driver) -> None:
    keys = backend.partitions()[0]
    await backend.ask(driver, lambda link: link.read((_PING,), keys))
