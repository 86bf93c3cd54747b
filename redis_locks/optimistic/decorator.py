"""`optimistic`: run a function as an optimistic transaction.

It is a decorator. `run` and `arun` do without one.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from asgiref.sync import iscoroutinefunction

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.decorators.task_queues import refuse_task
from redis_locks.drivers.base import run_blocking
from redis_locks.locks.data_commands import Command
from redis_locks.locks.reads import plain_reads
from redis_locks.locks.with_blocks import refuse_in_loop
from redis_locks.optimistic.conflicts import ConflictRate
from redis_locks.optimistic.signatures import (
    Args,
    Kwargs,
    Read,
    Watch,
    first_packet_of,
    label,
    require_function,
    several,
    text_of,
    without_pipeline,
)
from redis_locks.optimistic.transaction import (
    FirstPacket,
    Transaction,
    checked_keys,
    checked_using,
    options_of,
)
from redis_locks.values import arguments
from redis_locks.values.keys import validate_name

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    from redis_locks.optimistic.clients import Using
    from redis_locks.optimistic.pipelines import AsyncWatchingPipeline, WatchingPipeline


class RunOptions(TypedDict, total=False):
    """The options of `optimistic.run` and `arun`; `optimistic` says what they do."""

    watch: str | Iterable[str]
    read: Iterable[Command]
    attempts: int
    operation_id: str | None
    remember: float
    escalate_to: str | None
    escalate_after: int
    wait: float | Unset | None
    using: Using
    replies: bool


class optimistic:  # noqa: N801 - used as a decorator, so it reads like a function
    """Run a function as an optimistic transaction: WATCH, read, MULTI, EXEC, again on conflict.

    The function gets a redis-py pipeline as its first argument; the caller leaves that argument
    out. Until the function calls ``pipe.multi()``, commands run at once, and only reading commands
    are allowed. Afterwards commands are queued. Redis applies them together if nobody has changed a
    watched key meanwhile. Otherwise the function is called again after a short random pause, so it
    must have no other effects. If it returns without ``pipe.multi()``, nothing is written. The call
    returns the function's value.

    The queued commands are applied once even if the server's answer is lost, because the same EXEC
    records the operation. With an `operation_id` this holds across calls: a second call with the
    same id changes nothing and returns the value of the first call.

    Redis does not roll back: if a command fails inside EXEC, the call raises, but the other
    commands are applied.

    Args:
        watch: Keys to watch: templates over the function's other parameters, as in
            ``"account:{account_id}"``. Or a callable that gets the call's arguments and returns one
            key or several. On a cluster, all keys must be in one slot.
        read: Redis commands that only read, as in ``[("HGET", "account:{account_id}", "money")]``,
            or a callable that gets the call's arguments and returns the commands. They travel with
            the WATCH, and ``pipe.read`` has redis-py's replies to them. A transaction without a
            conflict then takes two round trips.
        attempts: How often the function is called at most, from 1.
        operation_id: A template or a callable, as for `watch`, that names the operation; the
            function's value must then be plain JSON data. None: each call is a new operation.
        remember: Seconds for which the server remembers an operation with an id, from 1.
        escalate_to: The name of a lock, as a template or a callable. The call acquires the lock
            after `escalate_after` conflicts and holds it during further attempts, which still
            watch. With it, conflicts are counted; see `conflicts`. None: no lock.
        escalate_after: Conflicts after which the lock is acquired; less than `attempts`.
        wait: Seconds to wait for that lock. 0: do not wait. None: for ever. Not given:
            REDIS_LOCKS["WAIT"].
        using: Where the keys live: a name in SERVERS, a CACHES alias, a URL, a dotted path or a
            blocking client, of a cluster too. Of a client only the options are used, on connections
            of our own; the lock then lives on the default server. None is the default server. It is
            refused if a cache is in another database, as the keys may well be there.
        replies: Whether the call returns the replies to the queued commands, as redis-py shapes
            them, in place of the function's value. If they are lost with the connection, it raises
            LockBackendError. Not with `operation_id`.

    Raises:
        TypeError: An argument, or what is decorated, has the wrong type.
        ValueError: An argument is out of range, or a template is wrong.

    A call raises, besides what the function raises:

        TooMuchContention: Others kept changing what is watched; nothing was written.
        LockBackendError: Redis did not answer; the text says whether anything may be written.
        ValueError: On a cluster, the keys are not in one slot.
        redis.ResponseError: The server refused a command.

    If a call is cancelled or interrupted while EXEC is under way, its writes may be applied.
    """

    def __init__(
        self,
        *,
        watch: Watch,
        read: Read = (),
        attempts: int = 5,
        operation_id: str | Callable[..., str] | None = None,
        remember: float = 3600.0,
        escalate_to: str | Callable[..., str] | None = None,
        escalate_after: int = 2,
        wait: float | Unset | None = UNSET,
        using: Using = None,
        replies: bool = False,
    ) -> None:
        self._options = options_of(attempts, remember, escalate_after, wait, replies)
        self._using = checked_using(using)
        if escalate_to is not None:
            self._options.require_escalation()
        self._options.require_no_id(operation_id)
        self._watch = watch
        self._read = read
        self._operation_id = operation_id
        self._escalate_to = escalate_to

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncWatchingPipeline, P], Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[WatchingPipeline, P], R]
    ) -> Callable[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function without its first parameter, as a transaction."""
        refuse_task(function, "optimistic", "optimistic(...)")
        require_function(function)
        signature = without_pipeline(function)
        plan_of: Callable[[Args, Kwargs], Transaction]

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

    def _planner(self, transaction: Callable[..., Any]) -> Callable[[Args, Kwargs], Transaction]:
        """Return what makes a plan of a call's arguments.

        Templates are over those of `transaction`.
        """
        options, using, name = self._options, self._using, label(transaction)
        first_packet = first_packet_of(transaction, self._watch, self._read)
        operation_id = text_of(transaction, "operation_id", self._operation_id)
        escalate_to = text_of(transaction, "escalate_to", self._escalate_to)
        if isinstance(first_packet, FirstPacket) and operation_id is None and escalate_to is None:
            plan = Transaction(options, using, first_packet, name)
            return lambda args, kwargs: plan  # noqa: ARG005 - the same for each call
        return lambda args, kwargs: Transaction(
            options,
            using,
            first_packet if isinstance(first_packet, FirstPacket) else first_packet(args, kwargs),
            name,
            operation_id and operation_id(args, kwargs),
            escalate_to and escalate_to(args, kwargs),
        )

    @staticmethod
    def _plan(function: object, keys: tuple[str, ...], options: RunOptions) -> Transaction:
        """Return the transaction that `run` runs: nothing of it is a template."""
        arguments.refuse_unknown(options, RunOptions.__optional_keys__, "optimistic")
        options["watch"] = watched = checked_keys((*keys, *several(options.get("watch", ()))))
        rule = optimistic(**options)
        operation_id, escalate_to = (
            validate_name(options[argument], argument=argument)
            if options.get(argument) is not None
            else None
            for argument in ("operation_id", "escalate_to")
        )
        first_packet = FirstPacket.of(watched, plain_reads(options.get("read", ())))
        return Transaction(
            rule._options,
            rule._using,
            first_packet,
            label(function),
            operation_id,
            escalate_to,
        )

    @staticmethod
    def run(
        function: Callable[[WatchingPipeline], R], *keys: str, **options: Unpack[RunOptions]
    ) -> R:
        """Run ``function(pipe)`` as a transaction over the keys of `watch` and return its value.

        Blocks. Arguments and errors are those of `optimistic`, without templates. The keys may also
        be given one by one, behind the function.
        """
        require_function(function)
        if iscoroutinefunction(function):
            raise TypeError(f"{label(function)} is async: await optimistic.arun(...) instead")
        return cast("R", _run(function, optimistic._plan(function, keys, options)))

    @staticmethod
    async def arun(
        function: Callable[[AsyncWatchingPipeline], Awaitable[R]],
        *keys: str,
        **options: Unpack[RunOptions],
    ) -> R:
        """Await ``function(pipe)`` as a transaction over the keys of `watch` and return its value.

        See `run`.
        """
        require_function(function)
        return cast("R", await _arun(function, optimistic._plan(function, keys, options)))

    @staticmethod
    def conflicts(*, using: Using = None, limit: int | None = 100) -> list[ConflictRate]:
        """Return how often attempts at a key met a conflict, most conflicts first.

        Blocks for one round trip. Only transactions with `escalate_to` are counted, under each key
        that they watch. Counting starts anew an hour after its first transaction. The server keeps
        the 1,000 keys with the most conflicts.

        Args:
            using: Where the keys live, as for the transactions.
            limit: The longest list to return; None for all.

        Raises:
            LockBackendError: Redis could not be asked.
            TypeError: An argument has the wrong type.
            ValueError: `limit` is below 1.
        """
        rates = _retries().conflict_rates(*_checked(using, limit), suspends=False)
        return cast("list[ConflictRate]", run_blocking(rates))

    @staticmethod
    async def aconflicts(*, using: Using = None, limit: int | None = 100) -> list[ConflictRate]:
        """Return how often attempts at a key met a conflict; see `conflicts`."""
        rates = await _retries().conflict_rates(*_checked(using, limit), suspends=True)
        return cast("list[ConflictRate]", rates)


def _checked(using: Using, limit: int | None) -> tuple[Using, int | None]:
    return checked_using(using), arguments.limit(limit, lowest=1)


@functools.cache
def _retries() -> ModuleType:
    # Not imported above: it imports redis-py, which would slow Django's start.
    from redis_locks.optimistic import retries

    return retries


def _run(function: Callable[[Any], Any], plan: Transaction) -> Any:
    refuse_in_loop("optimistic", "Decorate an `async def` function, or await optimistic.arun()")
    return run_blocking(_retries().transact(function, plan, suspends=False))


async def _arun(function: Callable[[Any], Any], plan: Transaction) -> Any:
    return await _retries().transact(function, plan, suspends=True)
