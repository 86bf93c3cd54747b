"""Django REST framework: contention as an error of the API, and a lock for API views."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework import views
from rest_framework.response import Response

from redis_locks.decorators.answers import is_answered
from redis_locks.decorators.api_errors import (
    LockedAPIException,
    LockUnavailableAPIException,
    api_error,
)
from redis_locks.exceptions import LockBackendError, LockNotAvailable
from redis_locks.views import RedisLockMixin

__all__ = [
    "LockUnavailableAPIException",
    "LockedAPIException",
    "RedisLockAPIMixin",
    "exception_handler",
]


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """The framework's exception handler, which also answers what locks raise anywhere in an API view.

    Set it as ``REST_FRAMEWORK["EXCEPTION_HANDLER"]``. Contention is answered with CONFLICT_STATUS, a
    server that cannot be asked with 503. Retry-After depends on the queue only if `error` knows the queue.
    """
    if is_answered(error):
        error = api_error(error)
    return views.exception_handler(error, context)


class RedisLockAPIMixin(RedisLockMixin):
    """`RedisLockMixin` for the framework's views and viewsets; write it before them.

    The view acquires the lock after it has authenticated, permitted and throttled the request. So a
    client without permission cannot hold the lock, and `lock_name` may use ``request.user``. Under
    ATOMIC_REQUESTS the transaction starts inside the lock.
    """

    if TYPE_CHECKING:
        # The stubs of the framework say more of their own than of any other class.
        as_view: Any

    def lock_conflict(self, error: LockNotAvailable) -> HttpResponseBase:
        """Raise LockedAPIException. Override it to raise something else or to return a Response."""
        raise LockedAPIException(error) from error

    def lock_unavailable(self, error: LockBackendError) -> HttpResponseBase:
        """Raise LockUnavailableAPIException. Override it to raise something else or to return a Response."""
        raise LockUnavailableAPIException(error) from error

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Handle the request; release the lock, if it was taken, after COMMIT."""
        with ExitStack() as self._held:
            # Not our parent's, which takes the lock before the framework has looked at the request.
            response: HttpResponseBase = super(RedisLockMixin, self).dispatch(
                request, *args, **kwargs
            )
            return response

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Do what the framework does before it calls the handler, then acquire the lock."""
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        answer = self._enter(self._held, request)
        if answer is not None:
            raise _Answered(answer)

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
