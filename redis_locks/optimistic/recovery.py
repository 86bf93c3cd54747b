"""An EXEC without an answer: is it applied?

The key of the operation settles it. The EXEC writes that key along with its effects, and every
attempt watches it. So whoever finds the key knows that the EXEC is applied; and whoever writes it
first, with another attempt or with `VOID`, makes an EXEC fail that is still on its way.
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
from redis_locks.optimistic.pipelines import Conflict

_TRIES = 8
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25
_MEMORY_SECONDS = 20.0
"""How long an operation whose id we made is remembered, beside two reply timeouts."""


class Done(NamedTuple):
    """The transaction is applied, or had nothing to write; this is the function's value."""

    value: Any


class Doubt:
    """What one call does not know, and how it finds out."""

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
        """When the first EXEC was sent of which we do not know whether it is applied."""

    @property
    def is_open(self) -> bool:
        """Whether an EXEC of this call went unanswered and may be applied."""
        return self._since is not None

    @property
    def memory_ms(self) -> int:
        """For how long the operation's key is to stay, in milliseconds."""
        return int(self._memory * 1000)

    @contextmanager
    def until_answered(self) -> Iterator[None]:
        """Be in doubt from before EXEC is sent until it is known to have been answered."""
        before = self._since
        self._since = monotonic() if before is None else before
        try:
            yield
        except (Conflict, ResponseError):
            self._since = before  # answered; an earlier one may still be on its way
            raise

    def require_memory(self) -> None:
        """Raise LockBackendError if an EXEC that was applied could be forgotten by now."""
        if self._since is not None and monotonic() - self._since >= self._memory:
            raise self._unknown()

    async def settle(self) -> Done | None:
        """Return what is applied; None if nothing is, and then nothing ever will be.

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
            await settle(pipe.watch(marker))
            applied = self._operation.applied(await settle(pipe.get(marker)))
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
