"""`redis_lock`: a lock for a function, a view or a block."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Never,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.conf.validation import OnUnavailable, error_status
from redis_locks.decorators.calls import (
    check_function,
    for_calls_of,
    is_async,
    keywords_of,
    refuse_bare,
)
from redis_locks.decorators.locked_function import LockedFunction
from redis_locks.decorators.task_queues import (
    DjangoTaskT,
    is_django_task,
    refuse_task,
    requeue,
    with_function,
)
from redis_locks.exceptions import LockNotAvailable
from redis_locks.locks.data_commands import Command
from redis_locks.locks.lock import Lock
from redis_locks.locks.options import Mode, options_of, varied
from redis_locks.locks.reads import packed_reads
from redis_locks.locks.scope import ScopeName
from redis_locks.locks.with_blocks import CalledBlocks
from redis_locks.values.name_templates import in_block

P = ParamSpec("P")
R = TypeVar("R")
Else = TypeVar("Else")

if TYPE_CHECKING:
    import typing_extensions  # which every type checker knows

    Otherwise = typing_extensions.TypeVar("Otherwise", default=Never)
else:
    Otherwise = TypeVar("Otherwise")
"""What a call returns in place of the function's value: None with "skip", what `on_conflict` returns, or nothing."""

Name = str | Callable[..., str | Sequence[str]] | None

OnConflict = Literal["raise", "skip", "retry"] | Callable[..., Any]


class PermitOptions(TypedDict, total=False):
    """The options of `Semaphore` that do not shape what a call returns."""

    wait: float | Unset | None
    lease: float | Unset
    renew: bool | Unset
    using: str | None
    label: str | None
    scope: ScopeName
    database: str | None
    commit_guard: bool
    replicas: int | Unset
    max_hold: float | Unset
    on_unavailable: OnUnavailable | Unset
    conflict_status: int | None


class LockOptions(PermitOptions, total=False):
    """The options of `redis_lock` that do not shape what a call returns."""

    mode: Mode
    reentrant: bool | Literal["thread"]
    crash_release: bool
    read: Iterable[Command]
    at_least: float


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
        mode: "exclusive", or "shared" with other shared holders.
        wait: Seconds to wait while somebody else holds it. 0: do not wait. None: for ever.
        lease: Seconds a hold lives unless renewed or extended.
        renew: Whether a hold is renewed in the background while it is held.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path.
        label: What the holder runs, for people; None is "GET /path" for a view, else the
            function's module and qualified name.
        scope: "auto", "block" or "transaction": until when a hold is kept; see `Lock`. Under
            ATOMIC_REQUESTS a view's lock is around the transaction; with "transaction" in it.
        database: The alias of the database whose transactions count. None: those of all databases.
        commit_guard: Whether a hold is verified just before COMMIT; see `Lock`.
        reentrant: Whether code inside a block that has the lock may take it again; see `Lock`. With
            True, a locked function may call itself.
        crash_release: Whether the lock is free half a second after the holder's process has ended; see `Lock`.
        replicas: How many replicas have to acknowledge a grant before it counts; see `Lock`.
        max_hold: Seconds for which a hold is renewed while its event loop stands still; see `Lock`.
        on_unavailable: What a call does when Redis cannot be asked. "raise": raise LockBackendError.
            "respond": a view answers 503 with Retry-After, anything else raises. "proceed": run
            without the lock; see `Lock`. Not given: REDIS_LOCKS["ON_UNAVAILABLE"], which is "respond".
        on_conflict: What a call does when somebody else holds the lock. "raise": raise
            LockNotAvailable or LockTimeout. "skip": return None without calling the
            function. "retry": in a Celery task, queue the task again with a growing, jittered
            pause, as often as its ``max_retries`` allows; elsewhere raise. It does so if Redis cannot be asked, too. A callable: return
            what ``on_conflict(error, *args, **kwargs)`` returns (awaited, for an async
            function). None: a view answers with `conflict_status` and Retry-After, anything else
            raises. A function is taken for a view if its first or second positional argument is a
            request. A helper that gets a request but is no view wants "raise".
        conflict_status: HTTP status of that answer; None is REDIS_LOCKS["CONFLICT_STATUS"].
        read: In a block: Redis commands that only read, answered in `Hold.read`; see `Lock`.
        at_least: Seconds for which the lock stays closed after its grant, however early it is released; see `Lock`.

    A view takes the lock for all methods but HEAD and OPTIONS, and those that a class-based view lacks.

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
        **options: Unpack[LockOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: redis_lock[None],
        name: Name = None,
        *more: str,
        on_conflict: Literal["skip"],
        **options: Unpack[LockOptions],
    ) -> None: ...

    @overload  # for an async function, which awaits it
    def __init__(
        self: redis_lock[Else],
        name: Name = None,
        *more: str,
        on_conflict: Callable[..., Coroutine[Any, Any, Else]],
        **options: Unpack[LockOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: redis_lock[Else],
        name: Name = None,
        *more: str,
        on_conflict: Callable[..., Else],
        **options: Unpack[LockOptions],
    ) -> None: ...

    @overload  # of a subclass
    def __init__(
        self,
        name: Name = None,
        *more: str,
        on_conflict: OnConflict | None = None,
        **options: Unpack[LockOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str | Callable[..., str | Sequence[str]] | None = None,
        *more: str,
        mode: Mode = "exclusive",
        wait: float | Unset | None = UNSET,
        lease: float | Unset = UNSET,
        renew: bool | Unset = UNSET,
        using: str | None = None,
        label: str | None = None,
        scope: ScopeName = "auto",
        database: str | None = None,
        commit_guard: bool = True,
        reentrant: bool | Literal["thread"] = True,
        crash_release: bool = False,
        replicas: int | Unset = UNSET,
        max_hold: float | Unset = UNSET,
        on_unavailable: OnUnavailable | Unset = UNSET,
        on_conflict: OnConflict | None = None,
        conflict_status: int | None = None,
        read: Iterable[Command] = (),
        at_least: float = 0,
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
        self._blocks = CalledBlocks()
        self.options = options_of(
            mode=mode,
            wait=wait,
            lease=lease,
            renew=renew,
            using=using,
            label=label,
            scope=scope,
            database=database,
            commit_guard=commit_guard,
            reentrant=reentrant,
            crash_release=crash_release,
            replicas=replicas,
            max_hold=max_hold,
            on_unavailable=on_unavailable,
            at_least=at_least,
        )
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
            of_class="for a view use RedisLockMixin or @method_decorator(redis_lock(...), name='dispatch')",
            of_generator="it would be released",
        )
        if self._reads:
            msg = "read is for a block, whose hold has the replies: with redis_lock(...) as hold"
            raise TypeError(msg)
        awaited = is_async(function)
        if awaited:
            self.scope.refuse_async()
        own_label = _own_label(function)
        template = own_label if self._named_by_call else ", ".join(map(str, self._sources))

        options = self.options

        def lock_named(names: tuple[str, ...], label: str | None) -> Lock:
            its = varied(options, label=options.label or label or own_label, template=template)
            return Lock.of_call(names, its)

        locked = LockedFunction(
            function=function,
            names_of=for_calls_of(function, *self._sources),
            lock_named=lock_named,
            on_conflict=None if self._on_conflict is None else self._conflict,
            on_outage=requeue if self._on_conflict == "retry" else None,
            conflict_status=self._conflict_status,
            is_view=self._on_conflict is None or callable(self._on_conflict),
            owner=self,
            using=options.using,
            needs_transaction=options.scope.name == "transaction",
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
            self._set_names(
                map(in_block, map(str, self._sources))
            )  # the same, should two threads come at once
            self._braces = self._is_unnamed = False

    def _conflict(
        self,
        error: LockNotAvailable,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        if self._on_conflict == "skip":
            return None
        if self._on_conflict == "retry":
            requeue(error)
        if callable(self._on_conflict):
            return self._on_conflict(error, *args, **kwargs)
        raise error


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
        msg = "give either on_conflict or conflict_status: with on_conflict there is no answer of ours"
        raise ValueError(msg)


def _own_label(function: Callable[..., object]) -> str | None:
    qualname = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{qualname}" if qualname else None
