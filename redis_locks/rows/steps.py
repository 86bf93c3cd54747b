"""Steps that blocking and async code take each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from redis_locks.exceptions import LockError
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Side

T = TypeVar("T")


async def read(side: Side, work: Callable[..., T], *args: Any) -> T:
    """Run what asks the database."""
    return await sync_to_async(work)(*args) if side.task else work(*args)


async def let_go(
    side: Side, holds: Iterable[Hold | None], error: BaseException | None = None
) -> None:
    """Release all at the end of a block that ended with `error`; raises the first LockError."""
    failure: LockError | None = None
    for hold in holds:
        if hold is None:
            continue
        try:
            await hold.end(side.driver, error)
        except LockError as its:
            failure = failure or its
    if failure is not None:
        raise failure
