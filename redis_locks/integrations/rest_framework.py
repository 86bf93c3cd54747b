"""Django REST framework: contention as an error of the API, and a lock for API views."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework import views
from rest_framework.exceptions import NotFound
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from redis_locks.decorators.answers import is_answered
from redis_locks.decorators.api_errors import api_error
from redis_locks.decorators.view_calls import needs_lock, require_reached
from redis_locks.exceptions import LockBackendError, LockNotAvailable
from redis_locks.locks.with_blocks import Block
from redis_locks.values.keys import UnusableName
from redis_locks.views import RedisLockMixin

__all__ = ["RedisLockAPIMixin", "exception_handler"]


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """The framework's exception handler, which also answers what locks raise.

    It does so anywhere in an API view.

    Set it as ``REST_FRAMEWORK["EXCEPTION_HANDLER"]``. Contention is answered with CONFLICT_STATUS,
    a server that cannot be asked with 503, and a text that cannot be a lock's name with 404.
    Retry-After depends on the queue only if `error` knows the queue.
    """
    if isinstance(error, UnusableName):
        error = NotFound()
    elif is_answered(error):
        error = api_error(error)
    return views.exception_handler(error, context)


class RedisLockAPIMixin(RedisLockMixin):
    """`RedisLockMixin` for the framework's views and viewsets; write it before them.

    The view acquires the lock after it has authenticated, permitted and throttled the request. So a
    client without permission cannot hold the lock, and `lock_name` may use ``request.user``. Under
    ATOMIC_REQUESTS the transaction starts inside the lock. Async views, such as those of adrf, work
    alike: the lock is held while the handler is awaited.
    """

    lock_actions: ClassVar[Collection[str] | None] = None
    """Of a viewset: the actions that take the lock, such as ["update"]. None: those with one of
    `lock_methods`.
    """

    if TYPE_CHECKING:
        # The stubs of the framework say more of their own than of any other class.
        as_view: Any

    def __init_subclass__(cls, **options: Any) -> None:
        """Check that the class's lock is taken. Raises ImproperlyConfigured."""
        super().__init_subclass__(**options)
        require_reached(cls, RedisLockAPIMixin, "dispatch", "initial")

    @classmethod
    def _check_lock(cls, initkwargs: dict[str, Any]) -> None:
        if not issubclass(cls, views.APIView):
            raise TypeError(
                "it is no view of Django REST framework, so it would take no lock; write "
                "RedisLockMixin instead"
            )
        super()._check_lock(initkwargs)

    @classmethod
    def _check_actions(cls, actions: Any) -> None:
        if actions is None:
            return
        if not isinstance(actions, list | tuple | set | frozenset):
            msg = f"lock_actions must be a list of actions such as ['update'], not {actions!r}"
            raise TypeError(msg)
        if not issubclass(cls, ViewSetMixin):
            msg = "lock_actions is for viewsets; name the methods of a view in lock_methods"
            raise TypeError(msg)
        unknown = [each for each in actions if not callable(getattr(cls, str(each), None))]
        if unknown:
            raise ValueError(
                f"lock_actions names {', '.join(map(repr, unknown))}, and the viewset has no such "
                "action. Name methods of the viewset, such as 'update' or one with @action"
            )

    def _takes_lock(self, request: HttpRequest) -> bool:
        if self.lock_actions is None or not needs_lock(None, request.method):
            return super()._takes_lock(request)
        return getattr(self, "action", None) in self.lock_actions

    def lock_conflict(self, error: LockNotAvailable) -> HttpResponseBase:
        """Raise an APIException with CONFLICT_STATUS and the code "locked".

        Override it to answer otherwise.
        """
        raise api_error(error) from error

    def lock_unavailable(self, error: LockBackendError) -> HttpResponseBase:
        """Raise an APIException with 503 and the code "unavailable".

        Override it to answer otherwise.
        """
        raise api_error(error) from error

    # Async views of adrf return a coroutine.
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Handle the request; release the lock, if it was taken, after COMMIT."""
        if self.view_is_async:
            return super(RedisLockMixin, self).dispatch(request, *args, **kwargs)
        return super().dispatch(request, *args, **kwargs)

    def _dispatch_in(
        self, block: Block, request: HttpRequest, args: Any, kwargs: Any
    ) -> HttpResponseBase:
        """Let the framework look at the request before `initial` takes the lock."""
        with ExitStack() as held:
            self._block, self._held = block, held
            response: HttpResponseBase = super(RedisLockMixin, self).dispatch(
                request, *args, **kwargs
            )
            return response

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Do what the framework does before it calls the handler, then acquire the lock."""
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        if self.view_is_async:
            self._lock_handler(request)
            return
        answer = self._enter(self._block, self._held, request)
        if answer is not None:
            raise _Answered(answer)

    def _lock_handler(self, request: Any) -> None:
        """Put the lock around the handler of an async `dispatch`.

        That looks the handler up after this, and awaits it.
        """
        method = str(request.method).lower()
        if method not in self.http_method_names or not hasattr(self, method):
            return
        handler = getattr(self, method)
        run = handler if iscoroutinefunction(handler) else sync_to_async(handler)

        async def locked(request: Any, *args: Any, **kwargs: Any) -> Any:
            return await self._under_lock(request, partial(run, request, *args, **kwargs))

        setattr(self, method, locked)

    def handle_exception(self, exc: Exception) -> Any:
        """The framework's answer to an error, or what `lock_conflict` returned."""
        if isinstance(exc, _Answered):
            return exc.response
        return super().handle_exception(exc)  # type: ignore[misc]


class _Answered(Exception):
    """Carries an answer out of `initial`, which cannot return one."""

    def __init__(self, response: HttpResponseBase) -> None:
        super().__init__()
        self.response = response
