"""The attempts of one call: watch, read, write, and again after a conflict, up to a limit.

Redis answers an EXEC with its results. If a watched key had changed, it answers nil: a conflict, and
nothing was applied. If no answer arrives, the call is in doubt; see `recovery`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from redis import exceptions as redis_errors

from redis_locks.conf.settings import get_settings
from redis_locks.drivers.base import run_blocking
from redis_locks.exceptions import LockBackendError, LockError, LockNotAvailable, TooMuchContention
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock
from redis_locks.locks.with_blocks import refuse_in_loop
from redis_locks.optimistic import conflicts
from redis_locks.optimistic.clients import Using, source_of
from redis_locks.optimistic.execution import AsyncExecution, BlockingExecution, Execution
from redis_locks.optimistic.operations import Operation
from redis_locks.optimistic.pipelines import (
    BROKEN,
    Conflict,
    LinkFailed,
    replies_of,
    require_protection,
)
from redis_locks.optimistic.recovery import Done, Doubt
from redis_locks.optimistic.transaction import Transaction
from redis_locks.values.keys import conflicts_key, operation_key

_ELSEWHERE = (
    redis_errors.MovedError,
    redis_errors.AskError,
    redis_errors.TryAgainError,
    redis_errors.ClusterDownError,
    redis_errors.SlotNotCoveredError,
)

_LONGEST_PAUSE = 0.25
_LONGEST_QUEUE = 4.0
_FIRST_REPAIR = 0.01

_BLOCKING = BlockingExecution()
_ASYNC = AsyncExecution()


def run(function: Callable[[Any], Any], plan: Transaction) -> Any:
    """Call `function` with a watching pipeline until what it queued is applied; return its value. Blocks.

    Raises:
        TooMuchContention: Others kept changing what was watched; nothing was applied.
        LockBackendError: Redis did not answer; the text says whether anything may be applied.
    """
    refuse_in_loop("optimistic", "Decorate an `async def` function, or await optimistic.arun()")
    return run_blocking(transact(_BLOCKING, function, plan))


async def arun(function: Callable[[Any], Any], plan: Transaction) -> Any:
    """Call `function` with a watching pipeline until what it queued is applied; see `run`."""
    return await transact(_ASYNC, function, plan)


def conflict_rates(using: Using, limit: int | None) -> list[conflicts.ConflictRate]:
    """Return the rates of the keys with the most conflicts, highest first. Blocks."""
    return run_blocking(_conflict_rates(_BLOCKING, using, limit))


async def aconflict_rates(using: Using, limit: int | None) -> list[conflicts.ConflictRate]:
    """Return the rates of the keys with the most conflicts; see `conflict_rates`."""
    return await _conflict_rates(_ASYNC, using, limit)


async def transact(execution: Execution, function: Callable[[Any], Any], plan: Transaction) -> Any:
    """Do what `run` and `arun` do; suspends only where `execution` does."""
    call = _Call(execution, function, plan)
    try:
        return await call.run()
    finally:
        await call.release()


async def _conflict_rates(
    execution: Execution, using: Using, limit: int | None
) -> list[conflicts.ConflictRate]:
    source = source_of(using)
    counters = conflicts_key(get_settings().prefix)
    last = -1 if limit is None else limit - 1
    try:
        client = await execution.client(source, counters)
        found = await execution.settle(client.zrevrange(counters, 0, last, withscores=True))
    except BROKEN as error:
        msg = f"{source.description} does not answer: {error}"
        raise LockBackendError(msg) from error
    return conflicts.rates(found)


class _Call:
    def __init__(
        self, execution: Execution, function: Callable[[Any], Any], plan: Transaction
    ) -> None:
        self._execution = execution
        self._function = function
        self._plan = plan
        self._source = source_of(plan.options.using)
        operation = Operation.of(plan.operation_id)
        prefix = get_settings().prefix
        # `min`, so that the order of the keys does not matter: a set's differs between processes.
        marker = operation_key(prefix, min(plan.keys), operation.id)
        self._source.require_one_slot((*plan.keys, marker, *plan.keys_read))
        self._operation = operation
        self._marker = marker
        self._counters = conflicts_key(prefix)
        self._doubt = Doubt(execution, self._source, operation, marker, plan.options.remember)
        self._hold: Hold | None = None
        self._made = 0
        self._conflicts = 0
        self._lasted = 0.0
        self._refused: LockError | None = None
        self._failure: BaseException | None = None
        """Why the last attempt ended without an answer; None if it met a conflict."""

    async def run(self) -> Any:
        """Try until done, or raise."""
        while self._made < self._plan.options.attempts:
            if self._made and not await self._may_go_on():
                break
            self._made += 1
            done = await self._attempt()
            if done is not None:
                return done.value
        return await self._give_up()

    async def release(self) -> None:
        """Release the lock that was taken, if any."""
        hold, self._hold = self._hold, None
        if hold is not None:
            # What was written is safe without it.
            with suppress(LockError):
                await self._execution.release(hold)

    async def _may_go_on(self) -> bool:
        """Acquire the lock if it is time to, else pause; False if the lock could not be acquired."""
        plan = self._plan
        wanted = plan.escalate_to if self._conflicts >= plan.options.escalate_after else None
        if wanted is None or self._hold is not None:
            await self._pause()
            return True
        # Not until a transaction of the database around it ends: the lock only keeps others from trying.
        lock = Lock(
            wanted, wait=plan.options.wait, using=plan.lock_using, label=plan.label, scope="block"
        )
        try:
            self._hold = await self._execution.hold(lock)
        except LockError as refused:
            self._refused = refused
            return False
        return True

    async def _pause(self) -> None:
        doubled = 2.0 ** min(self._made, 10)
        if self._failure is not None:
            longest = _FIRST_REPAIR * doubled
        else:
            # The others need about as long as we did. No fixed time would fit every network.
            longest = self._lasted * min(doubled, _LONGEST_QUEUE)
        await self._execution.sleep(random.uniform(0, min(longest, _LONGEST_PAUSE)))  # noqa: S311 - jitter

    async def _attempt(self) -> Done | None:
        execution, started = self._execution, monotonic()
        pipe = None
        self._failure = None
        try:
            client = await execution.client(self._source, self._plan.keys[0])
            pipe = execution.pipeline(client)
            return await self._transaction(pipe)
        except Conflict:
            self._conflicts += 1
        except LinkFailed as error:
            self._failure = error
        except _ELSEWHERE as error:
            self._failure = error
            with suppress(redis_errors.RedisError):
                await execution.refresh(self._source)
        except Exception:
            # The function failed, or the server refused. If an EXEC is in doubt, settle that first.
            done = await self._doubt.settle() if self._doubt.is_open else None
            if done is None:
                raise
            return done
        finally:
            if pipe is not None:
                await execution.close(pipe)
            self._lasted = monotonic() - started
        return None

    async def _transaction(self, pipe: Any) -> Done | None:
        settle, doubt = self._execution.settle, self._doubt
        # Nobody else knows an id that we made: look only if an EXEC of ours went unanswered.
        looks = self._operation.given or doubt.is_open
        questions = [("GET", self._marker)] if looks else []
        answers = await settle(
            pipe.begin((*self._plan.keys, self._marker), (*questions, *self._plan.reads))
        )
        if looks:
            (found,) = replies_of(answers[:1])
            applied = self._operation.applied(found)
            if applied is not None:
                return Done(*applied)
            doubt.require_memory()
        pipe.read = replies_of(answers[len(questions) :])
        value = await settle(self._function(pipe))
        require_protection(pipe)
        if not pipe.explicit_transaction:
            earlier = await doubt.settle() if doubt.is_open else None
            return earlier or Done(value)
        pipe.set(self._marker, self._operation.marker(value), px=doubt.memory_ms)
        counted_within = self._counts and self._source.is_one_server
        if counted_within:
            self._count(pipe, self._conflicts + 1)
        with doubt.until_answered():
            await settle(pipe.commit())
        if self._counts and not counted_within:
            await self._count_apart(self._conflicts + 1)
        return Done(value)

    async def _give_up(self) -> Any:
        plan = self._plan
        done = await self._doubt.settle() if self._doubt.is_open else None
        if done is not None:
            return done.value
        if self._counts and self._conflicts:
            await self._count_apart(self._conflicts)
        if self._refused is not None and not isinstance(self._refused, LockNotAvailable):
            raise self._refused
        if self._refused is None and self._failure is not None:
            msg = (
                f"{self._source.description} does not answer: {self._failure}. Nothing was written"
            )
            raise LockBackendError(msg) from self._failure
        met = f"{_times(self._made, 'attempt')}, {_times(self._conflicts, 'conflict')}"
        why = f"; then {self._refused}" if self._refused else ""
        msg = f"{', '.join(plan.keys)} kept changing: gave up after {met}{why}. Nothing was written"
        raise TooMuchContention(msg, plan.keys, self._made) from self._refused

    @property
    def _counts(self) -> bool:
        return self._plan.escalate_to is not None

    def _count(self, pipe: Any, attempts: int) -> None:
        conflicts.count(pipe, self._counters, self._plan.keys, attempts, self._conflicts)

    async def _count_apart(self, attempts: int) -> None:
        # Only statistics: an error here must not hide the outcome of the transaction.
        with suppress(redis_errors.RedisError, OSError):
            client = await self._execution.client(self._source, self._counters)
            pipe = client.pipeline(transaction=False)
            self._count(pipe, attempts)
            await self._execution.settle(pipe.execute())


def _times(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
