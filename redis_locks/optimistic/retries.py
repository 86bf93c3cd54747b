"""The attempts of one call: watch, read, write, and again after a conflict, up to a limit.

Redis answers an EXEC with its results. If a watched key had changed, it answers nil: a conflict,
and nothing was applied. If no answer arrives, the call is in doubt.

Then the operation's key tells. The EXEC writes that key along with its effects, and every attempt
watches it. If the key is there, the EXEC was applied. If not, writing the key first, by another
attempt or as `VOID`, makes a late EXEC fail.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from inspect import isawaitable
from time import monotonic
from typing import Any, Literal

from redis import exceptions as redis_errors

from redis_locks.conf.name_function import server_name
from redis_locks.conf.settings import get_settings
from redis_locks.decorators.calls import RUNS_LATER
from redis_locks.drivers.base import Driver, LinkBroken, run_blocking
from redis_locks.exceptions import LockBackendError, LockError, LockNotAvailable, TooMuchContention
from redis_locks.locks.lock import Lock
from redis_locks.locks.with_blocks import Block, BlockCall
from redis_locks.optimistic import conflicts
from redis_locks.optimistic.clients import Using, give_back, source_of
from redis_locks.optimistic.operations import VOID, Applied, Operation
from redis_locks.optimistic.outcomes import (
    LinkFailed,
    is_applied,
    replies_of,
    require_answers,
    shaped,
)
from redis_locks.optimistic.packets import (
    EXEC,
    MULTI,
    bulk,
    getting,
    pack_command,
    setting,
    watching,
)
from redis_locks.optimistic.transaction import Transaction
from redis_locks.values.interrupts import is_interrupt
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
_FIRST_LOOK = 0.02
_LOOKS = 8
"""How often a call in doubt asks what became of its EXEC."""
MEMORY_SECONDS = 20.0
"""Seconds for which the server remembers an operation without an id, besides two reply timeouts."""


def transact(
    function: Callable[[Any], Any], plan: Transaction, *, suspends: bool
) -> Coroutine[Any, Any, Any]:
    """Call `function` with a watching pipeline until what it queued is applied; return its value.

    `suspends`: whether it runs in a task, and not in a thread, which it blocks.

    Raises:
        TooMuchContention: Others kept changing what was watched; nothing was applied.
        LockBackendError: Redis did not answer; the text says whether anything may be applied.
    """
    return _Call(function, plan, suspends=suspends).repeat()


async def conflict_rates(
    using: Using, limit: int | None, *, suspends: bool
) -> list[conflicts.ConflictRate]:
    """Return the rates of the keys with the most conflicts, highest first."""
    source = source_of(using)
    counters = conflicts_key(get_settings().prefix)
    last = -1 if limit is None else limit - 1
    try:
        server = source.server(counters)
        driver = server.links(suspends=suspends)
        link = driver.take() or await driver.checkout()
        try:
            pipe: Any = server.pipeline(link, suspends=suspends)
            scores = pipe.zrevrange(counters, 0, last, withscores=True)
            if suspends:
                scores = await scores
        finally:
            await give_back(driver, link, watches=False)
    except (LinkBroken, LinkFailed) as error:
        raise LockBackendError(f"{source.description} does not answer: {error}") from error
    return conflicts.rates(scores)


class _Call:
    # What only a call has whose first attempt was not applied.
    made = 0
    """How many attempts were made."""
    failure: Exception | None = None
    """Why the last attempt ended without an answer; None if it met a conflict."""
    _conflicts = 0
    _has_lock = False
    _refused: LockError | None = None
    _sent: float | None = None
    """When the first EXEC was sent that went unanswered, so that it is in doubt; None: there is
    none.
    """

    def __init__(
        self, function: Callable[[Any], Any], plan: Transaction, *, suspends: bool
    ) -> None:
        self._suspends = suspends
        self._function = function
        self._plan = plan
        self._source = source = source_of(plan.using)
        given = plan.operation_id
        self._operation = operation = Operation(given and server_name(given, "operation"))
        self._prefix = get_settings().prefix
        marker = operation_key(self._prefix, plan.first_packet.tag, operation.id)
        if not source.is_one_server:
            source.require_one_slot((*plan.keys, marker, *plan.first_packet.keys_read))
        self._marker = bulk(marker)
        self._started = 0.0

    async def repeat(self) -> Any:
        """Make attempts until one is applied, and return its value; see `transact`."""
        while True:
            try:
                done = await self.attempt()
            except Exception as error:
                if is_interrupt(error):
                    raise
                done = await self.after(error)
                if done is None and self.failure is None:
                    raise
            if done is not None:
                return done.value
            if self.made >= self._plan.options.attempts:
                return await self.give_up()
            if (wanted := self._lock_wanted()) is not None:
                return await self._escalate(wanted)
            await self._pause()

    def _lock_wanted(self) -> str | None:
        """Return the lock to take before the next attempt; None: none, or it has it."""
        escalates = self._conflicts >= self._plan.options.escalate_after and not self._has_lock
        return self._plan.escalate_to if escalates else None

    async def _escalate(self, name: str) -> Any:
        """Acquire the lock `name`, and make the other attempts under it; see `repeat`."""
        # Not until a transaction of the database around it ends: the lock only keeps others from
        # trying.
        options = self._plan.options
        using, label = self._plan.lock_using, self._plan.label
        lock = Lock(name, wait=options.wait, using=using, label=label, scope="block")
        block = Block.of_call()
        if self._suspends:  # not by a statement, in which a loss would cancel the task
            return await self._repeat_under(block, lock)
        return BlockCall(self._run_under, block)(lock)

    def _run_under(self, block: Block, lock: Lock) -> Any:
        return run_blocking(self._repeat_under(block, lock))

    async def _repeat_under(self, block: Block, lock: Lock) -> Any:
        """Let `block` have the lock, and make the other attempts; or give up without it."""
        suspends = self._suspends
        try:
            hold = await lock.aenter(block=block) if suspends else lock.enter(block=block)
        except LockError as refused:
            self._refused = refused
            return await self.give_up()
        self._has_lock = True
        try:
            return await self.repeat()
        finally:
            # What was written is safe without it.
            with suppress(LockError):
                await hold.arelease() if suspends else hold.release()

    async def _pause(self) -> None:
        doubled = 2.0 ** min(self.made, 10)
        if self.failure is not None:
            longest = _FIRST_REPAIR * doubled
        else:
            # The others need about as long as we did. No fixed time would fit every network.
            longest = (monotonic() - self._started) * min(doubled, _LONGEST_QUEUE)
        await self._sleep(random.uniform(0, min(longest, _LONGEST_PAUSE)))  # noqa: S311 - jitter

    async def _sleep(self, seconds: float) -> None:
        if self._suspends:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - it is meant to block

    async def attempt(self) -> Applied | None:
        """Watch, read, call the function, write.

        None: it met a conflict, and is to be done again.
        """
        self.made += 1
        self._started = monotonic()
        first_packet = self._plan.first_packet
        server = self._source.server(first_packet.keys[0])
        driver = server.links(suspends=self._suspends)
        # Nobody else knows an id that we made: look only if an EXEC of ours went unanswered.
        looks = self._operation.given or self._sent is not None
        first = 2 if looks else 1
        packet = first_packet.watch + self._marker
        if looks:
            packet += getting(self._marker)
        number = first + len(first_packet.names)
        link, replies = await _asked(driver, packet + first_packet.reads, number)
        pipe, watches = server.pipeline(link, suspends=self._suspends), True
        try:
            require_answers(replies[:first], link)
            if looks and (applied := self._applied(replies[1])):
                return applied
            pipe.read = shaped(replies[first:], first_packet.names, pipe.response_callbacks, link)
            value = self._function(pipe)
            if value is not None and (isawaitable(value) or isinstance(value, RUNS_LATER)):
                value = await self._awaited(value)
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

    async def _awaited(self, value: Any) -> Any:
        """Return the value of an awaitable that the function returned; not in blocking code.

        Raises TypeError if it is no awaitable, or comes to a generator.
        """
        if self._suspends and isawaitable(value):
            value = await value
        if isinstance(value, RUNS_LATER):
            msg = "the function returned a generator, which would run after the transaction"
            raise TypeError(msg)
        if self._suspends:
            return value
        getattr(value, "close", lambda: None)()
        msg = "the function returned an awaitable; use optimistic.arun, or an async def function"
        raise TypeError(msg)

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
                if self._suspends:
                    await asyncio.to_thread(self._source.refresh)
                else:
                    self._source.refresh()
            return None
        # The function failed, or the server refused. If an EXEC is in doubt, settle that first.
        self.failure = None
        return await self._settled()

    def _applied(self, found: bytes | str | None) -> Applied | None:
        """Return what an earlier attempt or call has applied.

        `found` is what is at the operation's key.
        """
        applied = self._operation.applied(found)
        if applied is not None:
            self._require_no_replies()
        else:
            self._require_memory()
        return applied

    async def _settled(self) -> Applied | None:
        """Return what an EXEC in doubt has applied.

        None: none is in doubt, and none of the call ever will be applied.

        Raises:
            LockBackendError: Redis did not answer, or has forgotten by now.
        """
        if self._sent is None:
            return None
        failure: Exception | None = None
        for number in range(_LOOKS):
            if number:
                await self._sleep(min(_FIRST_LOOK * 2.0**number, _LONGEST_PAUSE))
            try:
                done = await self._found_or_void()
            except (LinkBroken, redis_errors.RedisError) as error:
                failure = error
                continue
            if done is False:
                continue  # a late EXEC arrived, or another call's
            if done is None:
                self._require_memory()
                self._sent = None
            else:
                self._require_no_replies()
            return done
        raise self._unknown() from failure

    async def _found_or_void(self) -> Applied | Literal[False] | None:
        """Return what was applied, or write to the operation's key, so that a late EXEC fails.

        False: the key changed meanwhile.
        """
        marker = self._marker
        driver = self._source.server(self._plan.keys[0]).links(suspends=self._suspends)
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

    def _require_memory(self) -> None:
        """Raise LockBackendError if the server may have forgotten an EXEC in doubt by now."""
        if self._sent is not None and monotonic() - self._sent >= self._memory:
            raise self._unknown()

    def _unknown(self) -> LockBackendError:
        advice = (
            f"Repeat the call with operation_id={self._operation.id!r}: it is applied once at most"
            if self._operation.given
            else "Give an operation_id to be able to repeat such a call"
        )
        return LockBackendError(
            f"{self._source.description} did not answer an EXEC, nor whether it is applied. "
            f"{advice}"
        )

    def _require_no_replies(self) -> None:
        """Raise LockBackendError if the caller wants the replies to an EXEC that were lost."""
        if self._plan.options.replies:
            raise LockBackendError(
                f"{self._source.description} has applied the transaction, but its replies were "
                "lost with the connection: "
                "read what it wrote, and do not repeat it"
            )

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
            await self._load_scripts(pipe)
        packed = [pack_command(words) for words, _ in pipe.command_stack]
        marker = self._operation.marker(value)
        packed.append(setting(self._marker, marker, int(self._memory * 1000)))
        if counts and is_one_server:
            packed += map(pack_command, self._counting(self._conflicts + 1))
        packet = b"".join((MULTI, *packed, EXEC))
        before = self._sent
        self._sent = before or monotonic()
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
        answers = replies_of(pipe, replies[-1])
        return Applied([await each if isawaitable(each) else each for each in answers])

    async def _load_scripts(self, pipe: Any) -> None:
        loading = pipe.load_scripts()
        if self._suspends:
            await loading

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
            driver = server.links(suspends=self._suspends)
            packet = b"".join(map(pack_command, commands))
            link, _ = await _asked(driver, packet, len(commands))
            driver.checkin(link)


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
