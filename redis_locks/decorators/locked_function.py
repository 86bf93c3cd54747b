"""A locked function: what `redis_lock` puts in place of the function it decorates."""

from __future__ import annotations

import functools
from asyncio import _get_running_loop  # documented, and public in all but name
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Literal, NoReturn

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase

from redis_locks.decorators.atomic_requests import (
    RequestTransaction,
    leave_to,
    refuse_async_transaction,
)
from redis_locks.decorators.calls import (
    Names,
    NamesRenderer,
    refuse_awaitable,
    refuse_generator,
    with_signature,
)
from redis_locks.decorators.responses import anote_queue, note_queue, respond
from redis_locks.decorators.task_queues import requeue
from redis_locks.decorators.view_calls import (
    after_request,
    is_of_api,
    label_of,
    needs_lock,
    request_of,
    view_of,
)
from redis_locks.exceptions import LockBackendError, LockError, LockNotAvailable
from redis_locks.locks.lock import Lock
from redis_locks.locks.options import Options, varied
from redis_locks.locks.with_blocks import FIX_OF_FUNCTION, Block, BlockCall, refuse_in_loop
from redis_locks.values.keys import UnusableName

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]

_PLAIN = (HttpResponseBase, type(None), int, str, dict)
"""Common types that are not awaitable. `isawaitable` takes a tenth of the time that a locked call
takes.
"""


OnConflict = Literal["raise", "skip", "retry"] | Callable[..., Any]


@dataclass(frozen=True, slots=True)
class LockedFunction:
    """A function, how the lock of a call is named and taken, and what contention leads to."""

    function: Callable[..., Any]
    names_of: NamesRenderer
    template: str | None
    """What the names are made from; see `LockEvent.template`."""
    label: str | None
    """What a call runs that serves no request, for people, if the options don't say."""
    options: Options
    on_conflict: OnConflict | None
    """What a call does on contention; None: a view answers, anything else raises."""
    conflict_status: int | None
    """The HTTP status of that answer; None is that of the settings."""
    owner: object
    """The decorator, which takes over the transaction of a view."""

    @property
    def is_view(self) -> bool:
        """Whether a call with a request is taken for that of a view."""
        return self.on_conflict is None or callable(self.on_conflict)

    def blocking(self) -> Callable[..., Any]:
        """The function that holds the lock while a sync function runs."""
        may_dispatch = getattr(self.function, "__name__", "") == "dispatch"

        @functools.wraps(self.function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            view = view_of(self.function, args) if may_dispatch else self.function
            if may_dispatch and getattr(view, "view_is_async", False):
                return self._await_locked(args, kwargs, view)
            return self._call_locked(args, kwargs, view)

        leave_to(self._owner(), locked, self.function)
        return with_signature(locked, self.function)

    def asynchronous(self) -> Callable[..., Any]:
        """The coroutine function that holds the lock while a coroutine runs."""

        @functools.wraps(self.function)
        async def locked(*args: Any, **kwargs: Any) -> Any:
            return await self._await_locked(args, kwargs, self.function)

        return with_signature(locked, self.function)

    def _owner(self) -> object | None:
        if self.options.scope.name == "transaction":
            return None  # the lock is taken inside the transaction, not around it
        # Of several locks the innermost opens the transaction: all are released after COMMIT.
        inner = getattr(self.function, "_non_atomic_requests", None)
        return getattr(inner, "owner", self.owner)

    def _call_locked(self, args: Args, kwargs: Kwargs, view: object) -> Any:
        request = request_of(args)
        if request is not None and self.is_view and not needs_lock(view, request.method):
            with RequestTransaction(request, self.owner):
                return self.function(*args, **kwargs)
        if _get_running_loop() is not None:  # else nobody needs the text, which takes long to make
            refuse_in_loop(f"{self.function!r}", FIX_OF_FUNCTION)
        try:
            names = self.names_of(args, kwargs)
        except UnusableName as error:
            raise self._not_found(error, request) from error
        lock = self._lock(names, request)
        return BlockCall(self._call_in, Block.of_call())(lock, request, view, args, kwargs)

    def _call_in(
        self,
        block: Block,
        lock: Lock,
        request: HttpRequest | None,
        view: object,
        args: Args,
        kwargs: Kwargs,
    ) -> Any:
        """Call the function in `block`, which has the lock until it has ended."""
        try:
            block.append(hold := lock.enter(block=block))
        except (UnusableName, LockNotAvailable, LockBackendError) as error:
            # Ours: the function has not been called yet.
            return self._without_lock(error, lock, request, view, args, kwargs)
        # Not a stack of contexts, which would take as long as all else here.
        try:
            if request is None:
                result = self.function(*args, **kwargs)
            else:
                with RequestTransaction(request, self.owner):
                    result = self.function(*args, **kwargs)
            if not isinstance(result, _PLAIN):
                refuse_awaitable(result, self.function, "redis_lock")
                refuse_generator(result, self.function, "redis_lock")
        except BaseException as error:
            hold.end_block(error)
            raise
        hold.end_block(None)
        block.clear()
        return result

    def _without_lock(
        self,
        error: UnusableName | LockNotAvailable | LockBackendError,
        lock: Lock,
        request: HttpRequest | None,
        view: object,
        args: Args,
        kwargs: Kwargs,
    ) -> Any:
        """Return what a call returns that does not get its lock, or raise."""
        if isinstance(error, UnusableName):
            raise self._not_found(error, request) from error
        if isinstance(error, LockBackendError):
            asked = request if self._responds(lock) else None
            return self._answer(error, asked, view, args, kwargs)
        if request is not None:
            note_queue(error, lock.names, self.options.using)
        if self.on_conflict is not None:
            return _not_awaitable(self._conflict(error, args, kwargs))
        return self._answer(error, request, view, args, kwargs)

    async def _await_locked(self, args: Args, kwargs: Kwargs, view: object) -> Any:
        request = request_of(args)
        refuse_async_transaction(request, self.owner)
        if request is not None and self.is_view and not needs_lock(view, request.method):
            return await _awaited(self.function(*args, **kwargs))
        try:
            names = await self._anames_of(args, kwargs)
        except UnusableName as error:
            raise self._not_found(error, request) from error
        lock = self._lock(names, request)
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(lock.hold())
            except UnusableName as error:
                raise self._not_found(error, request) from error
            except LockNotAvailable as error:
                if request is not None:
                    await anote_queue(error, lock.names, self.options.using)
                if self.on_conflict is not None:
                    return await _awaited(self._conflict(error, args, kwargs))
                return await self._aanswer(error, request, view, args, kwargs)
            except LockBackendError as error:
                answered = request if self._responds(lock) else None
                return await self._aanswer(error, answered, view, args, kwargs)
            result = await _awaited(self.function(*args, **kwargs))
            refuse_generator(result, self.function, "redis_lock")
            return result

    def _conflict(self, error: LockNotAvailable, args: Args, kwargs: Kwargs) -> Any:
        """Return what `on_conflict` says, or raise."""
        if callable(self.on_conflict):
            return self.on_conflict(error, *args, **kwargs)
        if self.on_conflict != "skip":
            self._without_request(error)
        return None

    def _not_found(self, error: UnusableName, request: HttpRequest | None) -> Exception:
        """Return what to raise for a name that cannot be one.

        A stranger may have written a view's name in the URL.
        """
        return error if request is None or not self.is_view else Http404(str(error))

    def _responds(self, lock: Lock) -> bool:
        """Whether a call with a request is answered if the server of the lock cannot be asked."""
        return lock.on_unavailable == "respond" and (self.is_view or lock.says_on_unavailable)

    async def _aanswer(
        self, error: LockError, request: HttpRequest | None, *call: Any
    ) -> HttpResponseBase:
        """Do as `_answer`, in a thread: a template may well ask the database."""
        if request is None:
            self._without_request(error)
        return await sync_to_async(self._answer)(error, request, *call)

    def _without_request(self, error: LockError) -> NoReturn:
        """Raise what a call without a request raises."""
        if self.on_conflict == "retry":
            requeue(error)
        raise error

    def _answer(
        self,
        error: LockError,
        request: HttpRequest | None,
        view: object,
        args: Args,
        kwargs: Kwargs,
    ) -> HttpResponseBase:
        """Return the answer to a request that did not get its lock.

        Without a request, raise `error`.
        """
        if request is None:
            self._without_request(error)
        if is_of_api(args):
            # Only a process with such a request has Django REST framework.
            from redis_locks.decorators.api_errors import api_error

            raise api_error(error, self.conflict_status) from error
        return respond(
            error,
            request,
            conflict_status=self.conflict_status,
            view=view,
            args=after_request(args),
            kwargs=kwargs,
        )

    async def _anames_of(self, args: Args, kwargs: Kwargs) -> Names:
        try:
            return self.names_of(args, kwargs)
        except SynchronousOnlyOperation:
            # The name needs the database, as {request.user.pk} does.
            return await sync_to_async(self.names_of)(args, kwargs)

    def _lock(self, names: Names, request: HttpRequest | None) -> Lock:
        label = self.label if request is None else label_of(request)
        options = self.options
        of_this_call = varied(options, label=options.label or label, template=self.template)
        return Lock.of_call(names, of_this_call)


async def _awaited(outcome: Any) -> Any:
    return await outcome if isawaitable(outcome) else outcome


def _not_awaitable(outcome: Any) -> Any:
    if isawaitable(outcome):
        getattr(outcome, "close", lambda: None)()
        msg = "on_conflict of a sync function must not be async; give a plain function"
        raise TypeError(msg)
    return outcome
