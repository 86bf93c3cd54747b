"""The attempts of one call: watch, read, write, and again after a conflict, up to a limit.

Redis answers an EXEC with its results. If a watched key had changed, it answers nil: a conflict,
and nothing was applied. If no answer arrives, the call is in doubt; see `recovery`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import isawaitable
from time import monotonic
from typing import Any

from redis import exceptions as redis_errors

from redis_locks.conf.name_function import server_name
from redis_locks.conf.settings import get_settings
from redis_locks.drivers.base import Driver, LinkBroken, run_blocking
from redis_locks.exceptions import LockBackendError, LockError, LockNotAvailable, TooMuchContention
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock
from redis_locks.locks.with_blocks import refuse_in_loop
from redis_locks.optimistic import conflicts
from redis_locks.optimistic.clients import Server, Using, give_back, source_of
from redis_locks.optimistic.execution import AsyncExecution, BlockingExecution, Execution
from redis_locks.optimistic.operations import Operation
from redis_locks.optimistic.outcomes import (
    LinkFailed,
    is_applied,
    replies_of,
    require_answers,
    shaped,
)
from redis_locks.optimistic.packets import EXEC, MULTI, bulk, getting, pack_command, setting
from redis_locks.optimistic.recovery import MEMORY_SECONDS, Applied, Doubt, now
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
    """Call `function` with a watching pipeline until what it queued is applied; return its value.

    Blocks.

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
        while True:
            try:
                done = await call.attempt()
            except Exception as error:
                done = await call.after(error)
                if done is None and call.failure is None:
                    raise
            if done is not None:
                return done.value
            if call.made >= plan.options.attempts or not await call.may_go_on():
                return await call.give_up()
    finally:
        if call.hold is not None:
            # What was written is safe without it.
            with suppress(LockError):
                await execution.release(call.hold)


async def _conflict_rates(
    execution: Execution, using: Using, limit: int | None
) -> list[conflicts.ConflictRate]:
    source = source_of(using)
    counters = conflicts_key(get_settings().prefix)
    last = -1 if limit is None else limit - 1
    try:
        server = source.server(counters)
        driver = _links(execution, server)
        link = driver.take() or await driver.checkout()
        try:
            pipe = execution.pipeline(server, link)
            found = await execution.settle(pipe.zrevrange(counters, 0, last, withscores=True))
        finally:
            await give_back(driver, link, watches=False)
    except (LinkBroken, LinkFailed) as error:
        msg = f"{source.description} does not answer: {error}"
        raise LockBackendError(msg) from error
    return conflicts.rates(found)


class _Call:
    # What only a call has whose first attempt was not applied.
    hold: Hold | None = None
    """The lock that was taken."""
    made = 0
    """How many attempts were made."""
    failure: Exception | None = None
    """Why the last attempt ended without an answer; None if it met a conflict."""
    _conflicts = 0
    _refused: LockError | None = None
    _sent: float | None = None
    """When the first EXEC was sent that went unanswered, so that it is in doubt; None: there is
    none.
    """

    def __init__(
        self, execution: Execution, function: Callable[[Any], Any], plan: Transaction
    ) -> None:
        self._execution = execution
        self._function = function
        self._plan = plan
        self._source = source = source_of(plan.using)
        given = plan.operation_id
        self._operation = operation = Operation(given and server_name(given, "operation"))
        self._prefix = get_settings().prefix
        marker = operation_key(self._prefix, plan.question.tag, operation.id)
        if not source.is_one_server:
            source.require_one_slot((*plan.keys, marker, *plan.question.keys_read))
        self._marker = bulk(marker)
        self._started = 0.0

    async def may_go_on(self) -> bool:
        """Acquire the lock if it is time to, else pause; False if the lock could not be acquired."""
        plan = self._plan
        wanted = plan.escalate_to if self._conflicts >= plan.options.escalate_after else None
        if wanted is None or self.hold is not None:
            await self._pause()
            return True
        # Not until a transaction of the database around it ends: the lock only keeps others from
        # trying.
        lock = Lock(
            wanted, wait=plan.options.wait, using=plan.lock_using, label=plan.label, scope="block"
        )
        try:
            self.hold = await self._execution.hold(lock)
        except LockError as refused:
            self._refused = refused
            return False
        return True

    async def _pause(self) -> None:
        doubled = 2.0 ** min(self.made, 10)
        if self.failure is not None:
            longest = _FIRST_REPAIR * doubled
        else:
            # The others need about as long as we did. No fixed time would fit every network.
            longest = (monotonic() - self._started) * min(doubled, _LONGEST_QUEUE)
        await self._execution.sleep(random.uniform(0, min(longest, _LONGEST_PAUSE)))  # noqa: S311 - jitter

    async def attempt(self) -> Applied | None:
        """Watch, read, call the function, write.

        None: it met a conflict, and is to be done again.
        """
        self.made += 1
        self._started = monotonic()
        question = self._plan.question
        server = self._source.server(question.keys[0])
        driver = server.driver if not self._execution.suspends else server.of_loop()
        # Nobody else knows an id that we made: look only if an EXEC of ours went unanswered.
        looks = self._operation.given or self._sent is not None
        first = 2 if looks else 1
        packet = question.watch + self._marker
        if looks:
            packet += getting(self._marker)
        link, replies = await _asked(driver, packet + question.reads, first + len(question.names))
        pipe, watches = self._execution.pipeline(server, link), True
        try:
            require_answers(replies[:first], link)
            if looks and (applied := self._applied(replies[1])):
                return applied
            pipe.read = shaped(replies[first:], question.names, pipe.response_callbacks, link)
            value = self._function(pipe)
            if value is not None and isawaitable(value):
                value = await self._execution.settle(value)
            pipe.require_protection()
            if not pipe.explicit_transaction:
                return await self._settled() or Applied([] if self._plan.options.replies else value)
            done = await self._committed(pipe, value)
            watches = False
        except (LinkBroken, LinkFailed):
            driver.drop_idle()
            raise
        finally:
            pipe.leave()
            if watches:
                await give_back(driver, link, watches=True)
            else:
                driver.checkin(link)
        return done

    async def after(self, error: Exception) -> Applied | None:
        """Return what an EXEC in doubt has applied although the attempt failed. None: nothing was.

        It sets `failure`, if the attempt is to be repeated.
        """
        if isinstance(error, (LinkBroken, LinkFailed)):
            self.failure = error
            return None
        if isinstance(error, _ELSEWHERE):
            self.failure = error
            with suppress(redis_errors.RedisError):
                await self._execution.refresh(self._source)
            return None
        # The function failed, or the server refused. If an EXEC is in doubt, settle that first.
        self.failure = None
        return await self._settled()

    def _applied(self, found: bytes | str | None) -> Applied | None:
        """Return what an earlier attempt or call has applied, given what is at the operation's key."""
        applied = self._operation.applied(found)
        if applied is not None:
            self._require_no_replies()
            return Applied(*applied)
        if self._sent is not None:
            self._doubt(self._sent).require_memory()
        return None

    async def _settled(self) -> Applied | None:
        """Return what an EXEC in doubt has applied; None: none is in doubt any more."""
        if self._sent is None:
            return None
        done = await self._doubt(self._sent).settle()
        if done is None:
            self._sent = None
        else:
            self._require_no_replies()
        return done

    def _require_no_replies(self) -> None:
        """Raise LockBackendError if the caller wants the replies to an EXEC that were lost."""
        if self._plan.options.replies:
            msg = (
                f"{self._source.description} has applied the transaction, but its replies were lost with the connection: "
                "read what it wrote, and do not repeat it"
            )
            raise LockBackendError(msg)

    def _doubt(self, since: float) -> Doubt:
        return Doubt(
            self._execution, self._source, self._plan.keys[0], self._operation, self._marker,
            self._memory, since,
        )  # fmt: skip

    @property
    def _memory(self) -> float:
        """For how many seconds the server keeps the operation's key."""
        if self._operation.given:
            return self._plan.options.remember
        return MEMORY_SECONDS + 2 * self._source.reply_timeout

    async def _committed(self, pipe: Any, value: Any) -> Applied | None:
        """Send MULTI, what was queued, the marker and EXEC.

        Return what came of it; None: a conflict.
        """
        counts, is_one_server = self._plan.escalate_to is not None, self._source.is_one_server
        if pipe.scripts:
            await self._execution.settle(pipe.load_scripts())
        packed = [pack_command(words) for words, _ in pipe.command_stack]
        marker = self._operation.marker(value)
        packed.append(setting(self._marker, marker, int(self._memory * 1000)))
        if counts and is_one_server:
            packed += map(pack_command, self._counting(self._conflicts + 1))
        packet = b"".join((MULTI, *packed, EXEC))
        before = self._sent
        self._sent = before or now()
        replies = pipe.link.exchange_all(packet, len(packed) + 2)
        if replies is None:
            replies = await pipe.link.answer()
        try:
            applied = is_applied(replies, pipe)
        except redis_errors.ResponseError:
            self._sent = before  # this EXEC was answered; an earlier one may still arrive
            raise
        if not applied:
            self._sent, self.failure = before, None
            self._conflicts += 1
            return None
        if counts and not is_one_server:
            await self._count_apart(self._conflicts + 1)
        if not self._plan.options.replies:
            return Applied(value)
        found = replies_of(pipe, replies[-1])
        return Applied([await each if isawaitable(each) else each for each in found])

    async def give_up(self) -> Any:
        """Return what was applied after all, or raise why nothing was."""
        plan = self._plan
        done = await self._settled()
        if done is not None:
            return done.value
        if plan.escalate_to is not None and self._conflicts:
            await self._count_apart(self._conflicts)
        if self._refused is not None and not isinstance(self._refused, LockNotAvailable):
            raise self._refused
        if self._refused is None and self.failure is not None:
            msg = f"{self._source.description} does not answer: {self.failure}. Nothing was written"
            raise LockBackendError(msg) from self.failure
        met = f"{_times(self.made, 'attempt')}, {_times(self._conflicts, 'conflict')}"
        why = f"; then {self._refused}" if self._refused else ""
        where = f"{', '.join(plan.keys)} on {self._source.description}"
        msg = f"{where} kept changing: gave up after {met}{why}. Nothing was written"
        raise TooMuchContention(msg, plan.keys, self.made) from self._refused

    def _counting(self, attempts: int) -> Sequence[tuple[Any, ...]]:
        counters = conflicts_key(self._prefix)
        return conflicts.counting(counters, self._plan.keys, attempts, self._conflicts)

    async def _count_apart(self, attempts: int) -> None:
        # Only statistics: an error here must not hide the outcome of the transaction.
        with suppress(LinkBroken, LockBackendError):
            commands = self._counting(attempts)
            server = self._source.server(conflicts_key(self._prefix))
            driver = _links(self._execution, server)
            packet = b"".join(map(pack_command, commands))
            link, _ = await _asked(driver, packet, len(commands))
            driver.checkin(link)


def _links(execution: Execution, server: Server) -> Driver:
    return server.of_loop() if execution.suspends else server.driver


async def _asked(driver: Driver, packet: bytes, number: int) -> tuple[Any, list[Any]]:
    """Return a link and what it answered.

    A link that died while it was idle is replaced, so it must be safe to repeat.
    """
    idle = driver.take()
    link: Any = idle or await driver.checkout()
    try:
        replies = link.exchange_all(packet, number)
        return link, await link.answer() if replies is None else replies
    except LinkBroken:
        driver.checkin(link)
        driver.drop_idle()
        if idle is None:
            raise
    except BaseException:
        link.close()  # it may watch already, or a reply may be on its way
        raise
    return await _asked(driver, packet, number)


def _times(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
