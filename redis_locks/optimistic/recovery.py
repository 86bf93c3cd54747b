"""Find out whether an EXEC without an answer was applied.

The operation's key tells. The EXEC writes that key along with its effects, and every attempt
watches it. If the key is there, the EXEC was applied. If not, writing the key first, by another
attempt or as `VOID`, makes a late EXEC fail.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Literal, NamedTuple

from redis.exceptions import RedisError

from redis_locks.drivers.base import Driver, LinkBroken
from redis_locks.exceptions import LockBackendError
from redis_locks.optimistic.clients import Server, Source, give_back
from redis_locks.optimistic.execution import Execution
from redis_locks.optimistic.operations import VOID, Operation
from redis_locks.optimistic.outcomes import require_answers
from redis_locks.optimistic.packets import EXEC, MULTI, getting, setting, watching

_TRIES = 8
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25
MEMORY_SECONDS = 20.0
"""Seconds for which the server remembers an operation without an id, besides two reply timeouts."""


def now() -> float:
    """Return the time by which a doubt is judged."""
    return monotonic()


class Applied(NamedTuple):
    """The transaction was applied, or had nothing to write; the function's value."""

    value: Any


class Doubt:
    """An EXEC of a call went unanswered, and may be applied; how the call finds out."""

    def __init__(
        self,
        execution: Execution,
        source: Source,
        key: str,
        operation: Operation,
        marker: bytes,
        memory: float,
        since: float,
    ) -> None:
        self._execution = execution
        self._source = source
        self._operation = operation
        self._marker = marker
        self._key = key
        self._memory = memory
        self._since = since
        """When the first EXEC was sent that went unanswered."""

    def require_memory(self) -> None:
        """Raise LockBackendError if the server may have forgotten an applied EXEC by now."""
        if monotonic() - self._since >= self._memory:
            raise self._unknown()

    async def settle(self) -> Applied | None:
        """Return the applied value; None if nothing was applied, and then no EXEC of the call ever will be.

        Raises:
            LockBackendError: Redis did not answer, or has forgotten by now.
        """
        failure: Exception | None = None
        for number in range(_TRIES):
            if number:
                await self._execution.sleep(min(_FIRST_PAUSE * 2.0**number, _LONGEST_PAUSE))
            try:
                applied = await self._find_or_void(self._source.server(self._key))
            except (LinkBroken, RedisError) as error:
                failure = error
                continue
            if applied is False:
                continue  # a late EXEC arrived, or another call's
            if applied is not None:
                return Applied(*applied)
            self.require_memory()
            return None
        raise self._unknown() from failure

    async def _find_or_void(self, server: Server) -> tuple[Any] | Literal[False] | None:
        """Return the applied value, or write to the operation's key, so that a late EXEC fails.

        False: the key changed meanwhile.
        """
        marker = self._marker
        driver: Driver = server.of_loop() if self._execution.suspends else server.driver
        link: Any = driver.take() or await driver.checkout()
        watches = True
        try:
            replies = await link.round_trip(watching(1) + marker + getting(marker), 2)
            require_answers(replies, link)
            applied = self._operation.applied(replies[1])
            if applied is not None:
                return applied
            # Also over a VOID that another call left before our EXEC began to watch.
            void = setting(marker, VOID, int(self._memory * 1000))
            replies = await link.round_trip(MULTI + void + EXEC, 3)
            require_answers(replies, link)
            watches = False
            return False if replies[-1] is None else None
        except LinkBroken:
            driver.drop_idle()
            raise
        finally:
            await give_back(driver, link, watches=watches)

    def _unknown(self) -> LockBackendError:
        advice = (
            f"Repeat the call with operation_id={self._operation.id!r}: it is applied once at most"
            if self._operation.given
            else "Give an operation_id to be able to repeat such a call"
        )
        return LockBackendError(
            f"{self._source.description} did not answer an EXEC, nor whether it is applied. {advice}"
        )
