"""What redis-py's errors while it connects mean for the core. Links raise what is made here."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from redis import exceptions as redis_errors

from redis_locks.drivers.base import CutShort, LinkBroken, OutOfTime, Silent, Unreachable
from redis_locks.drivers.endpoint import CLOSED, Endpoint, is_refused
from redis_locks.drivers.refusals import no_permission
from redis_locks.drivers.sentinel import SentinelsSilent, UnknownService
from redis_locks.exceptions import LockBackendError
from redis_locks.values.interrupts import interrupt_behind

# What answers HELLO 3: a server that is too old, or a proxy.
_NO_RESP3 = re.compile("HELLO|NOPROTO|protocol version", re.IGNORECASE)

_TOOK_LONG = "no connection in time"


@contextmanager
def connecting(endpoint: Endpoint, close: Callable[[], None]) -> Iterator[None]:
    """Open a connection in the block, by redis-py. If that fails, call `close`.

    Raises Unreachable, LinkBroken or LockBackendError for what redis-py raises. The server's
    breaker is told if nobody answered.
    """
    outer, began = sys.exception(), monotonic()
    try:
        yield
    except (redis_errors.RedisError, OSError, OutOfTime) as error:
        close()
        if (interrupt := interrupt_behind(error, outer)) is not None:
            raise interrupt  # noqa: B904 - as before redis-py took it for its own error
        raise connection_error(error, endpoint, began, outer) from error
    except BaseException:
        close()
        raise


def connection_error(
    error: BaseException, endpoint: Endpoint, began: float, outer: BaseException | None
) -> LinkBroken | LockBackendError:
    """Return what to raise when connecting to the server failed.

    Tells its breaker if nobody answered since `began`.

    `outer`: what was being handled before that; see `sys.exception`.
    """
    found = _known_error(error, endpoint, outer)
    if isinstance(found, LinkBroken) and not isinstance(error, OutOfTime):
        breaker = endpoint.breaker
        why = str(error).rstrip(".") or _TOOK_LONG
        breaker.failed(endpoint, began, why, refused=is_refused(error, outer))
        if breaker.is_open:
            return breaker.error(endpoint)
    return found


def _known_error(
    error: BaseException, endpoint: Endpoint, outer: BaseException | None
) -> LinkBroken | LockBackendError:
    description = endpoint.description
    if isinstance(error.__cause__, redis_errors.RedisError):
        error = error.__cause__  # redis-py's asyncio connection wraps what the server answered
    if isinstance(error, redis_errors.NoPermissionError):
        return no_permission(str(error), description)
    if isinstance(error, redis_errors.AuthenticationError):
        return LockBackendError(f"{description} refused our credentials: {error}")
    if isinstance(error, UnknownService):
        return LockBackendError(f"{description}: {error}")
    if isinstance(error, redis_errors.ResponseError) and _NO_RESP3.search(str(error)):
        return LockBackendError(
            f"{description} does not speak RESP3, in which grants arrive: {error}. Use Redis 7.0 "
            "or later, or Valkey, and no proxy in between that knows RESP2 only"
        )
    took_long = isinstance(error, TimeoutError) and not str(error)  # asyncio says nothing about it
    failure = f"{description} cannot be reached: {_TOOK_LONG if took_long else error}"
    if endpoint.sentinels is None or isinstance(error, SentinelsSilent):
        return _kind_of(error, outer)(failure)
    # A primary that is gone will soon have a successor: for whoever may wait, worth to try on.
    return LinkBroken(failure)


def _kind_of(error: BaseException, outer: BaseException | None) -> type[Unreachable]:
    if isinstance(error, (TimeoutError, redis_errors.TimeoutError, OutOfTime)):
        return Silent
    return CutShort if _was_taken(error, outer) else Unreachable


def _was_taken(error: BaseException | None, outer: BaseException | None) -> bool:
    """Return whether a connection was open before it failed."""
    while error is not None and error is not outer:
        if isinstance(error, (ConnectionResetError, BrokenPipeError)):
            return True
        if str(error) == CLOSED:
            return True
        error = error.__cause__ or error.__context__
    return False
