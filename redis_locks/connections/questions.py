"""Ask the server outside of any hold or wait."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from redis_locks.connections.backends import Backend, backend_for
from redis_locks.drivers.base import Driver, Link, LinkBroken, Unreachable, run_blocking
from redis_locks.exceptions import LockBackendError
from redis_locks.values.arguments import optional_text

T = TypeVar("T")

Question = Callable[[Backend, Driver], Coroutine[Any, Any, T]]
"""What is to be found out, or done, on a server."""

_TRIES = 3


def blocking_answer(using: str | None, question: Question[T]) -> T:
    """Return what `question` finds out on the server `using`; blocks."""
    backend = backend_for(optional_text(using, "using"))
    return run_blocking(question(backend, backend.driver))


async def async_answer(using: str | None, question: Question[T]) -> T:
    """Return what `question` finds out on the server `using`."""
    backend = backend_for(optional_text(using, "using"))
    return await question(backend, (await backend.of_loop())[0])


async def ask(
    backend: Backend, driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]]
) -> T:
    """Run `action`, again on a new link if one breaks, so it must be safe to repeat.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    failure: LinkBroken | None = None
    for _ in range(_TRIES):
        try:
            link = await driver.checkout()
            try:
                return await action(link)
            finally:
                driver.checkin(link)
        except Unreachable as error:
            raise LockBackendError(str(error)) from error
        except LinkBroken as error:
            failure = error
            driver.drop_idle()
    msg = f"{backend.description} does not answer: {failure}"
    raise LockBackendError(msg) from failure
