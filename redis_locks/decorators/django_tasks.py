"""Tasks of ``django.tasks`` that are queued once; see `unique_task`.

A backend names a message once it has queued it, and hands only arguments to the worker. So here a
message has a token of its own, which the worker finds under the lock's name.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from time import monotonic
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.utils.module_loading import import_string

from redis_locks.decorators.queued_messages import (
    RUN,
    Message,
    Naming,
    QueuedRun,
    Rule,
)
from redis_locks.drivers.base import run_blocking
from redis_locks.exceptions import LockError
from redis_locks.locks.lock import Side
from redis_locks.protocol.callers import new_token
from redis_locks.values.identity import COOLDOWN

logger = logging.getLogger("redis_locks")

Function = Callable[..., Any]


def queued_once(task: Any, rule: Rule) -> Any:
    """Return the same task, queued once.

    Raises:
        TypeError: The name is of the wrong type.
        ValueError: The template does not fit the task's function.
    """
    function = functools.partial(task.func, None) if task.takes_context else task.func
    queue = Queue(rule, rule.naming(function), takes_context=task.takes_context)
    make = queue.asynchronous if iscoroutinefunction(task.func) else queue.blocking
    attributes = {field.name: getattr(task, field.name) for field in fields(task)}
    kind: Any = type(task)
    return _unique(kind)(**attributes | {"func": make(task.func), "queue": queue})


@dataclass(frozen=True)
class Queue:
    """How the messages of one task are named, and what becomes of their locks when it runs."""

    rule: Rule
    name_of: Naming
    takes_context: bool

    def message(
        self, side: Side, task: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Message, float]:
        """Return a new message with these arguments, and the seconds until it is due.

        The arguments are as the worker will get them.
        """
        name = self.name_of(args, kwargs)
        message = Message(self.rule, name, new_token(side.session), f"task {task.name}, queued")
        due = task.run_after
        return message, (due - datetime.now(due.tzinfo)).total_seconds() if due else 0.0

    def blocking(self, function: Function) -> Function:
        """Return `function` for a worker's thread.

        It releases its message's lock as it begins or ends.
        """

        @functools.wraps(function)
        def once(*args: Any, **kwargs: Any) -> Any:
            delivery = Delivery(self, Side(self.rule.using), args, kwargs)
            try:
                run_blocking(delivery.begin())
                return function(*args, **kwargs)
            finally:
                run_blocking(delivery.end())

        return once

    def asynchronous(self, function: Function) -> Function:
        """Return `function` for an event loop; see `blocking`."""

        @functools.wraps(function)
        async def once(*args: Any, **kwargs: Any) -> Any:
            side = Side.of_loop(self.rule.using)
            delivery = Delivery(self, side, args, kwargs)
            try:
                await delivery.begin()
                return await function(*args, **kwargs)
            finally:
                await side.driver.finish(delivery.end())

        return once


class Delivery:
    """A message that a worker has taken, whose task begins and ends."""

    def __init__(
        self, queue: Queue, side: Side, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._queue = queue
        self._side = side
        self._args = args[1:] if queue.takes_context else args
        self._kwargs = kwargs
        self._run: QueuedRun | None = None
        self._began = math.inf
        """When the task began, by our clock; for ever in the future until it does."""

    async def begin(self) -> None:
        """Give the lock up, or hold it until `end`."""
        self._run = await self._found()
        if self._run is not None:
            await self._run.begin(self._side)
        self._began = monotonic()

    async def end(self) -> None:
        """Give the lock up, unless that is done.

        It does so also if Redis could not be asked when the task began.
        """
        run = self._run or await self._found()
        if run is not None:
            await run.end(self._side)

    async def _found(self) -> QueuedRun | None:
        """Return the run of the message that has the lock.

        None, and a warning, if Redis could not be asked.
        """
        # Not above: most processes never inspect a lock.
        from redis_locks.inspection.queries import read_lock

        side, queue = self._side, self._queue
        name = queue.name_of(self._args, self._kwargs)
        try:
            info = await read_lock(side.backend, side.driver, name=name)
        except LockError as error:
            logger.warning(
                "The unique task %r may be blocked until its lease ends: %s", name, error
            )
            return None
        ran = monotonic() - self._began
        # A hold that began later is the next message's: ours has ended meanwhile. Two clocks
        # measure this, the server's in milliseconds, and they may run at rates that differ a
        # little.
        ours = [
            each
            for each in (info.holders if info else ())
            if each.held_for > ran * 1.001 + 0.001 and not each.label.startswith((RUN, COOLDOWN))
        ]
        if not ours:
            return QueuedRun(Message(queue.rule, name, new_token(side.session)))
        return QueuedRun(Message(queue.rule, name, ours[0].token, ours[0].label))


@functools.cache
def _unique(kind: Any) -> Any:
    """Return the class of `kind`'s tasks that are queued once."""
    package = kind.__module__.partition(".")[0]  # the backport has the function in another place
    utils = "django.utils.json" if package == "django" else f"{package}.utils"
    as_json: Function = import_string(f"{utils}.normalize_json")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class QueuedOnce(kind):  # type: ignore[misc]
        """A task that is queued once: `enqueue` returns None while a message is queued."""

        queue: Queue

        def __reduce__(self) -> tuple[Any, ...]:
            kept = ("func", "queue")
            changed = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in kept}
            return _again, (self.module_path, changed)

        def enqueue(self, *args: Any, **kwargs: Any) -> Any:
            rule = self.queue.rule
            side = Side(rule.using)
            # First: an alias that there is not queues nothing.
            transactions = None if rule.queue_scope is None else rule.queue_scope.keepers()
            message, delay = self.queue.message(side, self, *as_json([args, kwargs]))
            if run_blocking(message.send(side)) is not None:
                return None
            try:
                result = kind.enqueue(self, *args, **kwargs)
            except BaseException:
                run_blocking(message.withdraw(side))
                raise
            if transactions is not None:  # the queue loses the message with them
                transactions.on_rollback(lambda: run_blocking(message.withdraw(side)))
            run_blocking(message.sent(side, delay))
            return result

        async def aenqueue(self, *args: Any, **kwargs: Any) -> Any:
            # In the thread of the transaction, as Django's own backends do.
            return await sync_to_async(self.enqueue)(*args, **kwargs)

    return QueuedOnce


def _again(path: str, changed: Mapping[str, Any]) -> Any:
    """Return the task of a module, as it was pickled."""
    return replace(import_string(path), **changed)
