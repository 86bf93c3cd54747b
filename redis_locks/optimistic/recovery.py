"""Find out whether an EXEC without an answer was applied.

The operation's key tells. The EXEC writes that key along with its effects, and every attempt watches
it. If the key is there, the EXEC was applied. If not, writing the key first, by another attempt or as
`VOID`, makes a late EXEC fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple

from redis.exceptions import RedisError, ResponseError

from redis_locks.exceptions import LockBackendError
from redis_locks.optimistic.clients import Source
from redis_locks.optimistic.execution import Execution
from redis_locks.optimistic.operations import VOID, Operation
from redis_locks.optimistic.pipelines import Conflict, replies_of

_TRIES = 8
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25
_MEMORY_SECONDS = 20.0
"""Seconds for which the server remembers an operation without an id, besides two reply timeouts."""


class Done(NamedTuple):
    """The transaction was applied, or had nothing to write; the function's value."""

    value: Any


class Doubt:
    """Whether an EXEC of one call is in doubt, and how the call finds out."""

    def __init__(
        self,
        execution: Execution,
        source: Source,
        operation: Operation,
        marker: str,
        remember: float,
    ) -> None:
        self._execution = execution
        self._source = source
        self._operation = operation
        self._marker = marker
        automatic = _MEMORY_SECONDS + 2 * source.reply_timeout
        self._memory = remember if operation.given else automatic
        self._since: float | None = None
        """When the first EXEC was sent that is in doubt; None: none is."""

    @property
    def is_open(self) -> bool:
        """Whether an EXEC of this call went unanswered and may be applied."""
        return self._since is not None

    @property
    def memory_ms(self) -> int:
        """How long the server keeps the operation's key, in milliseconds."""
        return int(self._memory * 1000)

    @contextmanager
    def until_answered(self) -> Iterator[None]:
        """Be in doubt from before EXEC is sent until the server has answered it."""
        before = self._since
        self._since = monotonic() if before is None else before
        try:
            yield
        except (Conflict, ResponseError):
            self._since = before  # this EXEC was answered; an earlier one may still arrive
            raise

    def require_memory(self) -> None:
        """Raise LockBackendError if the server may have forgotten an applied EXEC by now."""
        if self._since is not None and monotonic() - self._since >= self._memory:
            raise self._unknown()

    async def settle(self) -> Done | None:
        """Return the applied value; None if nothing was applied, and then no EXEC of the call ever will be.

        Raises:
            LockBackendError: Redis did not answer, or has forgotten by now.
        """
        failure: Exception | None = None
        for number in range(_TRIES):
            if number:
                await self._execution.sleep(min(_FIRST_PAUSE * 2.0**number, _LONGEST_PAUSE))
            try:
                applied = await self._find_or_void()
            except (RedisError, OSError) as error:
                failure = error
                continue
            if applied is not None:
                return Done(*applied)
            self.require_memory()
            self._since = None
            return None
        raise self._unknown() from failure

    async def _find_or_void(self) -> tuple[Any] | None:
        """Return the applied value, or write to the operation's key, so that a late EXEC fails."""
        settle, marker = self._execution.settle, self._marker
        pipe = self._execution.pipeline(await self._execution.client(self._source, marker))
        try:
            (found,) = replies_of(await settle(pipe.begin([marker], [("GET", marker)])))
            applied = self._operation.applied(found)
            if applied is None:
                pipe.multi()
                # Also over a VOID that another call left before our EXEC began to watch.
                pipe.set(marker, VOID, px=self.memory_ms)
                await settle(pipe.commit())
            return applied
        finally:
            await self._execution.close(pipe)

    def _unknown(self) -> LockBackendError:
        advice = (
            f"Repeat the call with operation_id={self._operation.id!r}: it is applied once at most"
            if self._operation.given
            else "Give an operation_id to be able to repeat such a call"
        )
        return LockBackendError(
            f"{self._source.description} did not answer an EXEC, nor whether it is applied. {advice}"
        )
