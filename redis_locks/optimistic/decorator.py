"""`optimistic`: run a function as an optimistic transaction, as a decorator or by `run` and `arun`."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from asgiref.sync import iscoroutinefunction

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.optimistic.conflicts import ConflictRate
from redis_locks.optimistic.plans import Options, Plan
from redis_locks.optimistic.signatures import (
    Args,
    Kwargs,
    Watch,
    keys_of,
    label,
    require_function,
    text_of,
    without_pipeline,
)
from redis_locks.values import arguments

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    from redis.asyncio.client import Pipeline as AsyncPipeline
    from redis.client import Pipeline

    from redis_locks.optimistic.clients import Using


class optimistic:  # noqa: N801 - used as a decorator, so it reads like a function
    """Run a function as an optimistic transaction: WATCH, read, MULTI, EXEC, again on conflict.

    The function gets a redis-py pipeline as its first argument, which the caller does not give.
    Until it calls ``pipe.multi()``, commands run at once, and only reading ones are let through;
    afterwards they are queued, and applied together if nobody has changed a watched key meanwhile.
    Otherwise the function is called again, after a short random pause: it must have no other
    effects. If it returns without ``pipe.multi()``, nothing is written. Its value is returned.

    What it queued is applied once even if the server's answer was lost, because the operation
    is remembered by the same EXEC. With an `operation_id` this holds across calls: a second call
    with the same id changes nothing and returns what the first one returned.

    Redis does not roll back: a command that fails inside EXEC raises, the others are applied.

    Args:
        watch: Keys to watch: templates over the function's other parameters, as in
            ``"account:{account_id}"``, or a callable that gets the call's arguments and returns
            one key or several. On a cluster, all in one slot.
        attempts: How often the function is called at most, from 1.
        operation_id: A template or a callable, as for `watch`, that names the operation; the
            function's value must then be plain JSON data. None: each call is a new operation.
        remember: Seconds for which an operation that was given an id is remembered, from 1.
        escalate_to: The name of a lock, as a template or a callable, that is acquired after
            `escalate_after` conflicts and held while further attempts are made, which still
            watch. It also has conflicts counted; see `conflicts`. None: no lock.
        escalate_after: Conflicts after which the lock is acquired; less than `attempts`.
        wait: Seconds to wait for that lock; 0: do not wait, None: for ever; not given:
            REDIS_LOCKS["WAIT"].
        using: Where the keys live: a CACHES alias, a URL, a dotted path, or a blocking client,
            also one of a cluster; None is REDIS_LOCKS["CONNECTION"]. Only its options are used,
            on connections of our own. With a client, the lock lives at REDIS_LOCKS["CONNECTION"].

    Raises:
        TypeError: An argument, or what is decorated, has the wrong type.
        ValueError: An argument is out of range, or a template is wrong.

    A call raises, besides what the function raises:

        TooMuchContention: Others kept changing what is watched; nothing was written.
        LockBackendError: Redis did not answer; the text says whether anything may be written.
        ValueError: On a cluster, the keys are not in one slot.
        redis.ResponseError: The server refused a command.

    A call that is cancelled or interrupted while EXEC is under way may be applied.
    """

    def __init__(
        self,
        *,
        watch: Watch,
        attempts: int = 5,
        operation_id: str | Callable[..., str] | None = None,
        remember: float = 3600.0,
        escalate_to: str | Callable[..., str] | None = None,
        escalate_after: int = 2,
        wait: float | Unset | None = UNSET,
        using: Using = None,
    ) -> None:
        self._options = Options(attempts, remember, escalate_after, wait, using)
        if escalate_to is not None:
            self._options.require_escalation()
        self._watch = watch
        self._operation_id = operation_id
        self._escalate_to = escalate_to

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncPipeline, P], Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Pipeline, P], R]) -> Callable[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function without its first parameter, as a transaction."""
        require_function(function)
        signature = without_pipeline(function)
        plan_of: Callable[[Args, Kwargs], Plan]

        if iscoroutinefunction(function):

            @functools.wraps(function)
            async def transaction(*args: Any, **kwargs: Any) -> Any:
                return await _arun(
                    lambda pipe: function(pipe, *args, **kwargs), plan_of(args, kwargs)
                )

        else:

            @functools.wraps(function)
            def transaction(*args: Any, **kwargs: Any) -> Any:
                return _run(lambda pipe: function(pipe, *args, **kwargs), plan_of(args, kwargs))

        transaction.__signature__ = signature  # type: ignore[attr-defined]
        plan_of = self._planner(transaction)
        return transaction

    def _planner(self, transaction: Callable[..., Any]) -> Callable[[Args, Kwargs], Plan]:
        """Return what makes a plan of a call's arguments; templates are over those of `transaction`."""
        options, name = self._options, label(transaction)
        keys = keys_of(transaction, self._watch)
        operation_id = text_of(transaction, "operation_id", self._operation_id)
        escalate_to = text_of(transaction, "escalate_to", self._escalate_to)
        return lambda args, kwargs: Plan(
            options,
            keys(args, kwargs),
            operation_id and operation_id(args, kwargs),
            escalate_to and escalate_to(args, kwargs),
            name,
        )

    @staticmethod
    def run(
        function: Callable[[Pipeline], R],
        *keys: str,
        attempts: int = 5,
        operation_id: str | None = None,
        remember: float = 3600.0,
        escalate_to: str | None = None,
        escalate_after: int = 2,
        wait: float | Unset | None = UNSET,
        using: Using = None,
    ) -> R:
        """Run ``function(pipe)`` as a transaction over `keys` and return its value.

        Blocks. Arguments and errors are those of `optimistic`, without templates.
        """
        require_function(function)
        if iscoroutinefunction(function):
            msg = f"{label(function)} is async: await optimistic.arun(...) instead"
            raise TypeError(msg)
        options = Options(attempts, remember, escalate_after, wait, using)
        plan = Plan(options, keys, operation_id, escalate_to, label(function))
        return cast("R", _run(function, plan))

    @staticmethod
    async def arun(
        function: Callable[[AsyncPipeline], Awaitable[R]],
        *keys: str,
        attempts: int = 5,
        operation_id: str | None = None,
        remember: float = 3600.0,
        escalate_to: str | None = None,
        escalate_after: int = 2,
        wait: float | Unset | None = UNSET,
        using: Using = None,
    ) -> R:
        """Await ``function(pipe)`` as a transaction over `keys` and return its value; see `run`."""
        require_function(function)
        options = Options(attempts, remember, escalate_after, wait, using)
        plan = Plan(options, keys, operation_id, escalate_to, label(function))
        return cast("R", await _arun(function, plan))

    @staticmethod
    def conflicts(*, using: Using = None, limit: int | None = 100) -> list[ConflictRate]:
        """Return how often attempts at a key met a conflict, most conflicts first.

        Blocks for one round trip. Transactions with `escalate_to` are counted, under each key
        that they watch, since the hour began with the first of them; the 1000 keys with the most
        conflicts are kept.

        Args:
            using: Where the keys live, as the transactions say it.
            limit: The longest list to return; None for all.

        Raises:
            LockBackendError: Redis could not be asked.
            TypeError: An argument has the wrong type.
            ValueError: `limit` is below 1.
        """
        from redis_locks.optimistic import retries  # not above, as in `_run`

        return retries.conflict_rates(*_checked(using, limit))

    @staticmethod
    async def aconflicts(*, using: Using = None, limit: int | None = 100) -> list[ConflictRate]:
        """Return how often attempts at a key met a conflict; see `conflicts`."""
        from redis_locks.optimistic import retries  # not above, as in `_run`

        return await retries.aconflict_rates(*_checked(using, limit))


def _checked(using: Using, limit: int | None) -> tuple[Using, int | None]:
    return Options(using=using).using, arguments.limit(limit, lowest=1)


def _run(function: Callable[[Any], Any], plan: Plan) -> Any:
    # Not above: it imports redis-py, which Django's start can do without.
    from redis_locks.optimistic import retries

    return retries.run(function, plan)


async def _arun(function: Callable[[Any], Any], plan: Plan) -> Any:
    from redis_locks.optimistic import retries  # not above, as in `_run`

    return await retries.arun(function, plan)
