"""`redis_lock`: a lock for a function, a view or a block."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, ParamSpec, TypeVar, Unpack, overload

from redis_locks.conf.validation import error_status
from redis_locks.decorators.calls import (
    check_function,
    for_calls_of,
    is_async,
    keywords_of,
    own_name,
    refuse_bare,
)
from redis_locks.decorators.locked_function import LockedFunction, OnConflict
from redis_locks.decorators.task_queues import (
    DjangoTaskT,
    is_django_task,
    refuse_task,
    with_function,
)
from redis_locks.locks.data_commands import Command
from redis_locks.locks.lock import Lock
from redis_locks.locks.options import LockOptions, options_of
from redis_locks.locks.reads import packed_reads
from redis_locks.values.name_templates import in_block

P = ParamSpec("P")
R = TypeVar("R")
Else = TypeVar("Else")

if TYPE_CHECKING:
    import typing_extensions  # which every type checker knows

    Otherwise = typing_extensions.TypeVar("Otherwise", default=Never)
else:
    Otherwise = TypeVar("Otherwise")
"""What a call returns in place of the function's value: None with "skip", what `on_conflict`
returns, or nothing.
"""

Name = str | Callable[..., str | Sequence[str]] | None


class CallOptions(LockOptions, total=False):
    """The options of `redis_lock` that do not shape what a call returns."""

    read: Iterable[Command]
    conflict_status: int | None


class redis_lock(Lock, Generic[Otherwise]):  # noqa: N801 - used as a decorator and as a block, so it reads like a function
    """A lock that also decorates: each call of the function holds the lock while it runs.

    Works on sync and async functions, methods and views. In a block (``with``,
    ``async with``), and with ``acquire``, it does as `Lock` does.

    Args:
        name: On a function: a template over its parameters, ``"account:{account_id}"`` or
            ``"user:{request.user.pk}"``; or a callable that gets the call's arguments and
            returns the name, or several names as a list or tuple; or None for the function's
            module and qualified name. In a block: the name, such as an f-string. Literal braces are
            doubled, as in a template, and fields are an error. If users type a part of the name,
            use `Lock`, which takes any text as it is.
        *more: Templates or names of further locks, acquired with it all at once or not at all.
        on_conflict: What a call does when somebody else holds the lock. "raise": raise
            LockNotAvailable or LockTimeout. "skip": return None without calling the function.
            "retry": in a Celery task, queue the task again with a growing, jittered pause, as often
            as its ``max_retries`` allows; elsewhere raise. It does so if Redis cannot be asked,
            too. A callable: return what ``on_conflict(error, *args, **kwargs)`` returns (awaited,
            for an async function). None: a view answers with `conflict_status` and Retry-After,
            anything else raises. A function is taken for a view if its first or second positional
            argument is a request. A helper that gets a request but is no view wants "raise".
        conflict_status: HTTP status of that answer; None is REDIS_LOCKS["CONFLICT_STATUS"].
        read: In a block: Redis commands that only read, answered in `Hold.read`; see `Lock`.
        **options: What else `Lock` takes, with these differences. `label` of a view is "GET /path",
            if it is not given; of another function it is its module and qualified name. Under
            ATOMIC_REQUESTS a view's lock is around the transaction; with ``scope="transaction"`` in
            it. ``on_unavailable="respond"`` lets a view answer 503 with Retry-After; anything else
            raises.

    A view takes the lock for all methods but HEAD and OPTIONS, and those that a class-based view
    lacks.

    Raises:
        TypeError: An argument, or what is decorated, has the wrong type.
        ValueError: An argument is out of range, or the template is wrong.
    """

    @overload
    def __init__(
        self: redis_lock[Never],
        name: Name = None,
        *more: str,
        on_conflict: Literal["raise", "retry"] | None = None,
        **options: Unpack[CallOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: redis_lock[None],
        name: Name = None,
        *more: str,
        on_conflict: Literal["skip"],
        **options: Unpack[CallOptions],
    ) -> None: ...

    @overload  # for an async function, which awaits it
    def __init__(
        self: redis_lock[Else],
        name: Name = None,
        *more: str,
        on_conflict: Callable[..., Coroutine[Any, Any, Else]],
        **options: Unpack[CallOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: redis_lock[Else],
        name: Name = None,
        *more: str,
        on_conflict: Callable[..., Else],
        **options: Unpack[CallOptions],
    ) -> None: ...

    @overload  # of a subclass
    def __init__(
        self,
        name: Name = None,
        *more: str,
        on_conflict: OnConflict | None = None,
        **options: Unpack[CallOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str | Callable[..., str | Sequence[str]] | None = None,
        *more: str,
        on_conflict: OnConflict | None = None,
        conflict_status: int | None = None,
        read: Iterable[Command] = (),
        **options: Unpack[LockOptions],
    ) -> None:
        self._reads = packed_reads(read)
        self._sources = (name, *more)
        self._named_by_call = name is None or callable(name)
        if not self._named_by_call or more:
            self._set_names(self._sources)
        self._braces = False
        for each in self._sources:
            if isinstance(each, str) and ("{" in each or "}" in each):
                self._braces = True
        self.options = options_of(**options)
        if self._named_by_call:
            refuse_bare(name, "redis_lock")
        if on_conflict is not None or conflict_status is not None:
            _check_conflict(on_conflict, conflict_status)
        self._on_conflict = on_conflict
        self._conflict_status = conflict_status
        for_functions = on_conflict is not None or conflict_status is not None
        self._is_unnamed = self._named_by_call or self._braces or for_functions

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R | Otherwise]]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> Callable[P, R | Otherwise]: ...

    @overload
    def __call__(self, function: DjangoTaskT) -> DjangoTaskT: ...

    def __call__(self, function: Any) -> Any:
        """The function, holding the lock while it runs; its signature stays the same."""
        if is_django_task(function):
            return with_function(function, self(function.func))
        refuse_task(function, "redis_lock", repr(self))
        check_function(
            function,
            "redis_lock",
            of_class="for a view use RedisLockMixin or @method_decorator(redis_lock(...), "
            "name='dispatch')",
            of_generator="it would be released",
        )
        if self._reads:
            msg = "read is for a block, whose hold has the replies: with redis_lock(...) as hold"
            raise TypeError(msg)
        awaited = is_async(function)
        if awaited:
            self.scope.refuse_async()
        label = own_name(function)
        locked = LockedFunction(
            function=function,
            names_of=for_calls_of(function, *self._sources),
            template=label if self._named_by_call else ", ".join(map(str, self._sources)),
            label=label,
            options=self.options,
            on_conflict=self._on_conflict,
            conflict_status=self._conflict_status,
            owner=self,
        )
        return locked.asynchronous() if awaited else locked.blocking()

    def keywords_of(self, function: Callable[..., object]) -> frozenset[str]:
        """Return the fields of the name that only the keywords of a call of `function` can give.

        Raises:
            ValueError: A call can have no such argument.
        """
        return keywords_of(function, *self._sources)

    def __repr__(self) -> str:
        sources = () if self._sources == (None,) else self._sources
        return f"{type(self).__name__}({', '.join(map(repr, sources))})"

    def _require_name(self) -> None:
        if self._named_by_call:
            msg = f"{self!r} names its lock after a function; a block needs redis_lock('name')"
            raise TypeError(msg)
        if self._on_conflict is not None or self._conflict_status is not None:
            msg = "on_conflict and conflict_status are for functions; a block raises on contention"
            raise TypeError(msg)
        if self._braces:
            # The same, should two threads come at once.
            self._set_names([in_block(each) for each in self._sources if isinstance(each, str)])
            self._braces = self._is_unnamed = False


def _check_conflict(on_conflict: object, conflict_status: object) -> None:
    if (
        on_conflict is not None
        and on_conflict not in ("raise", "skip", "retry")
        and not callable(on_conflict)
    ):
        msg = (
            f"on_conflict must be 'raise', 'skip', 'retry', a callable or None, not {on_conflict!r}"
        )
        raise TypeError(msg) if not isinstance(on_conflict, str) else ValueError(msg)
    if conflict_status is None:
        return
    error_status(conflict_status, "conflict_status")
    if on_conflict is not None:
        msg = (
            "give either on_conflict or conflict_status: with on_conflict there is no answer of "
            "ours"
        )
        raise ValueError(msg)
