"""`RedisLockMixin`: a lock for a class-based view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, ExitStack
from difflib import get_close_matches
from functools import partial
from inspect import isawaitable
from typing import Any, ClassVar, Final

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.db.transaction import TransactionManagementError
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.views import View

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.conf.validation import OnUnavailable
from redis_locks.decorators.atomic_requests import RequestTransaction, leave_to
from redis_locks.decorators.responses import anote_queue, note_queue, respond
from redis_locks.decorators.semaphore import Semaphore
from redis_locks.decorators.view_calls import SAFE, label_of, require_reached
from redis_locks.exceptions import LockBackendError, LockNotAvailable
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock
from redis_locks.locks.options import Mode, PermitOptions, varied
from redis_locks.locks.scope import ScopeName
from redis_locks.locks.with_blocks import Block, BlockCall, refuse_in_loop
from redis_locks.values.keys import UnusableName, validate_name
from redis_locks.values.name_templates import NameTemplate, parse


class RedisLockMixin(View):
    """Holds a lock while a class-based view, sync or async, handles a request.

    Write it before the view: ``class AccountView(RedisLockMixin, UpdateView)``. Under
    ATOMIC_REQUESTS the view releases the lock after COMMIT. `lock_scope`, `lock_database` and
    `lock_commit_guard` are the arguments `scope`, `database` and `commit_guard` of `redis_lock`.
    """

    lock_name: str | None = None
    """A template over the URL's arguments and ``request``: ``"account:{pk}"``."""

    lock_mode: Mode = "exclusive"
    """"exclusive", or "shared" with other shared holders."""

    lock_capacity: int | None = None
    """How many requests may hold it at once, as permits of a `Semaphore`; None: it is a lock."""

    lock_wait: float | Unset | None = UNSET
    """Seconds to wait while somebody else holds the lock. 0: do not wait. None: for ever."""

    lock_lease: float | Unset = UNSET
    """Seconds the hold lives unless renewed or extended."""

    lock_using: str | None = None
    """The server: a CACHES alias, a URL or a dotted path."""

    lock_replicas: int | Unset = UNSET
    """How many replicas have to acknowledge a grant before it counts; see `Lock`."""

    lock_scope: ScopeName = "auto"
    """"auto", "block" or "transaction": until when the hold is kept; see `redis_lock`."""

    lock_database: str | None = None
    """The alias of the database whose transactions count; None: those of all databases."""

    lock_commit_guard: bool = True
    """Whether the hold is verified just before COMMIT."""

    lock_on_unavailable: OnUnavailable | Unset = UNSET
    """"respond", "raise" or "proceed": what happens when Redis cannot be asked; see `redis_lock`.
    """

    lock_max_waiting: int | None = None
    """How many requests may wait for the lock; the next one is answered as other contention, at
    once.
    """

    lock_methods: ClassVar[Collection[str]] = ("POST", "PUT", "PATCH", "DELETE")
    """The HTTP methods that take the lock. A method that the view lacks takes none, and gets 405.
    """

    hold: Hold | None = None
    """The hold while a request is handled under the lock; None for other methods."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Check that the class's lock is taken. Raises ImproperlyConfigured."""
        super().__init_subclass__(**options)
        require_reached(cls, RedisLockMixin, "dispatch")

    @classmethod
    def as_view(cls, *args: Any, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view function, after a check of the class's lock attributes.

        Raises:
            ImproperlyConfigured: A lock attribute is wrong, or there is no lock_name.
        """
        try:
            cls._check_lock(initkwargs)
        except (TypeError, ValueError, TransactionManagementError) as error:
            raise ImproperlyConfigured(f"{cls.__module__}.{cls.__qualname__}: {error}") from error
        # Viewsets of Django REST framework take a positional argument.
        view = super().as_view(*args, **initkwargs)
        if not cls.view_is_async:
            scope = initkwargs.get("lock_scope", cls.lock_scope)
            leave_to(None if scope == "transaction" else cls, view, view)
        return view

    @classmethod
    def _check_lock(cls, initkwargs: dict[str, Any]) -> None:
        def configured(attribute: str) -> Any:
            return initkwargs.get(attribute, getattr(cls, attribute, None))

        name, methods = configured("lock_name"), configured("lock_methods")
        if name is not None or cls.get_lock_name is RedisLockMixin.get_lock_name:
            _parsed(name)
        listed = isinstance(methods, Collection) and not isinstance(methods, str)
        if not listed or not all(str(method).isupper() for method in methods):
            msg = f"lock_methods must be a list of methods such as ['POST'], not {methods!r}"
            raise TypeError(msg)
        handled = {each.upper() for each in (*View.http_method_names, *cls.http_method_names)}
        useless = [each for each in methods if each not in handled - SAFE]
        if useless:
            raise ValueError(
                f"lock_methods names {', '.join(map(repr, useless))}, which never takes the lock: "
                "HEAD and OPTIONS take none, and others must be in http_method_names"
            )
        cls._check_actions(configured("lock_actions"))
        _require_spelling(cls)
        mode, capacity = configured("lock_mode"), configured("lock_capacity")
        if capacity is not None and mode != "exclusive":
            msg = f"lock_capacity makes a semaphore, which has no lock_mode such as {mode!r}"
            raise ValueError(msg)
        options = {option: configured(f"lock_{option}") for option in _OPTIONS}
        lock = _described("check", mode, capacity, **options)
        if cls.view_is_async:
            lock.scope.refuse_async()

    @classmethod
    def _check_actions(cls, actions: Any) -> None:
        if actions is not None:
            raise TypeError(
                f"lock_actions={actions!r} is for RedisLockAPIMixin on a viewset; this view has "
                "lock_methods"
            )

    def get_lock_name(self) -> str | None:
        """Return the lock's name for this request: `lock_name`, filled in.

        Override it for other names.

        None: this request takes no lock.
        """
        return _parsed(self.lock_name).render(self._lock_field)

    def _lock_field(self, root: str) -> object:
        if root in self.kwargs:
            return self.kwargs[root]
        if root == "request":
            return self.request
        raise ValueError(
            f"lock_name {self.lock_name!r}: the URL has no argument {root!r} (there are: "
            f"{', '.join(self.kwargs) or 'none'}, and request). If this request needs no lock, "
            "return None from get_lock_name()"
        )

    def lock_conflict(
        self, error: LockNotAvailable
    ) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Return the response if somebody else holds the lock: 423 with Retry-After.

        It is HTML, plain text or JSON, as the client asks. In an async view, an override may be a
        coroutine function.
        """
        return self._respond(error)

    def lock_unavailable(
        self, error: LockBackendError
    ) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Return the response if Redis cannot be asked: 503 with Retry-After; as `lock_conflict`.

        With `lock_on_unavailable` "raise" or "proceed" it is not called.
        """
        return self._respond(error)

    def _respond(self, error: LockNotAvailable | LockBackendError) -> HttpResponseBase:
        return respond(error, self.request, view=self, args=self.args, kwargs=self.kwargs)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Handle the request, under the lock if its method is one of `lock_methods`."""
        if self.view_is_async:
            return self._dispatch_async(request, *args, **kwargs)  # type: ignore[return-value]
        answer: HttpResponseBase = BlockCall(self._dispatch_in, Block.of_call())(
            request, args, kwargs
        )
        return answer

    def _dispatch_in(
        self, block: Block, request: HttpRequest, args: Any, kwargs: Any
    ) -> HttpResponseBase:
        """Handle a sync request in `block`."""
        with ExitStack() as held:
            answer = self._enter(block, held, request)
            return super().dispatch(request, *args, **kwargs) if answer is None else answer

    def _enter(
        self, block: Block, held: ExitStack, request: HttpRequest
    ) -> HttpResponseBase | None:
        """Acquire the lock, for `block`, and open the transaction inside it; `held` ends both.

        Or return the response to contention.
        """
        lock = self._request_lock() if self._takes_lock(request) else None
        if lock is not None:
            refuse_in_loop(f"{type(self).__name__}", "Make its handlers async")
            try:
                self.hold = lock.enter(block=block)
                held.push(self.hold)
            except UnusableName as error:
                raise Http404(str(error)) from error
            except LockNotAvailable as error:
                note_queue(error, lock.names, self.lock_using)
                return self.lock_conflict(error)  # type: ignore[return-value]
            except LockBackendError as error:
                if lock.on_unavailable == "raise":
                    raise
                return self.lock_unavailable(error)  # type: ignore[return-value]
        held.enter_context(RequestTransaction(request, type(self)))
        return None

    async def _dispatch_async(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        return await self._under_lock(request, partial(super().dispatch, request, *args, **kwargs))

    async def _under_lock(
        self, request: HttpRequest, handle: Callable[[], Any]
    ) -> HttpResponseBase:
        """Return what `handle` does under the lock, awaited if need be.

        Or return the response to contention.
        """
        async with AsyncExitStack() as held:
            lock = await self._alock() if self._takes_lock(request) else None
            if lock is not None:
                try:
                    self.hold = await held.enter_async_context(lock.hold())
                except UnusableName as error:
                    raise Http404(str(error)) from error
                except LockNotAvailable as error:
                    await anote_queue(error, lock.names, self.lock_using)
                    return await _called(self.lock_conflict, error)
                except LockBackendError as error:
                    if lock.on_unavailable == "raise":
                        raise
                    return await _called(self.lock_unavailable, error)
            response = handle()
            answered: HttpResponseBase = await response if isawaitable(response) else response
            return answered

    def _takes_lock(self, request: HttpRequest) -> bool:
        method = request.method or ""
        if method not in self.lock_methods:
            return False
        handler = method.lower()
        return handler in self.http_method_names and hasattr(self, handler)

    async def _alock(self) -> Lock | None:
        try:
            return self._request_lock()
        except SynchronousOnlyOperation:
            # The name needs the database, such as {request.user.pk}.
            return await sync_to_async(self._request_lock)()

    def _request_lock(self) -> Lock | None:
        """Return the lock of this request; None if it takes none.

        Raises Http404 for a text that cannot be a name.
        """
        try:
            name = self.get_lock_name()
            return None if name is None else self._lock_named(validate_name(name))
        except UnusableName as error:
            raise Http404(str(error)) from error

    def _lock_named(self, name: str) -> Lock:
        options = {option: getattr(self, f"lock_{option}") for option in _OPTIONS}
        options["label"] = label_of(self.request)
        lock = _described(name, self.lock_mode, self.lock_capacity, **options)
        view = type(self)
        template = self.lock_name or f"{view.__module__}.{view.__qualname__}"
        # Its name is as the request gives it, with braces perhaps, also where `lock` is a
        # semaphore.
        return lock.of_call((name,), varied(lock.options, template=template))


_OPTIONS: Final = tuple(
    option
    for option in sorted(PermitOptions.__optional_keys__)
    if hasattr(RedisLockMixin, f"lock_{option}")
)
"""The arguments of a lock that are attributes of the view, with ``lock_`` before them."""


def _require_spelling(view: type) -> None:
    """Raise TypeError if an attribute of a view has nearly the name of one of ours.

    It would have no effect.
    """
    ours = {
        name
        for each in view.__mro__
        if each.__module__.partition(".")[0] == "redis_locks"
        for name in vars(each)
        if name.startswith("lock_")
    }
    for name in sorted(set(dir(view)) - ours):
        meant = get_close_matches(name, ours, 1, cutoff=0.85) if name.startswith("lock_") else []
        if meant:
            raise TypeError(
                f"{name} has no effect: write {meant[0]}, or give an attribute of your own another "
                "name"
            )


async def _called(hook: Callable[..., Any], error: Exception) -> HttpResponseBase:
    """Return what a hook of an async view returns.

    Where it is no coroutine function, it may ask the database.
    """
    answer = hook(error) if iscoroutinefunction(hook) else await sync_to_async(hook)(error)
    answered: HttpResponseBase = await answer if isawaitable(answer) else answer
    return answered


def _described(name: str, mode: Mode, capacity: int | None, **options: Any) -> Lock:
    if capacity is not None:
        return Semaphore(name, capacity, **options)
    return Lock(name, mode=mode, **options)


def _parsed(name: object) -> NameTemplate:
    if not isinstance(name, str):
        raise TypeError(
            f"lock_name must be a string such as 'account:{{pk}}', not {name!r}; or define "
            "get_lock_name()"
        )
    return parse(name)
