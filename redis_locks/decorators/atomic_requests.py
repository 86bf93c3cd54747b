"""ATOMIC_REQUESTS inside a lock: acquire, BEGIN, view, COMMIT, release.

Django wraps ``atomic()`` around the view as it finds it in the URLconf, and so around our lock. The
lock would be released before COMMIT, and the next holder would not see what was written. So a
locked view tells Django that it wants no transaction, and opens the same one itself. Only a lock
that must be taken in a transaction, and is kept by it, leaves that to Django.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from django.db import connections, transaction
from django.http import HttpRequest


class OptOuts(set[str]):
    """The ``_non_atomic_requests`` of a locked view.

    Django asks ``alias in view._non_atomic_requests``: always true, so that it opens no
    transaction. What the set really contains are the aliases for which the view itself
    opted out, through ``transaction.non_atomic_requests``, before or after it was locked.
    """

    def __init__(self, owner: object, own: Iterable[str] = ()) -> None:
        super().__init__(own)
        self.owner = owner
        """The innermost lock of the view: it opens the transactions instead of Django."""

    def __contains__(self, alias: object) -> bool:
        return True


def leave_to(owner: object | None, view: Any, inner: object) -> None:
    """Have ``owner``, the lock around ``inner``, open the transactions of the locked ``view``.

    None: its lock wants to be kept by them, so Django opens them around it.
    """
    own = set(iter(getattr(inner, "_non_atomic_requests", ())))
    # Not an empty set, which a class would share with all its views.
    vars(view).pop("_non_atomic_requests", None)
    if owner is not None or own:
        view._non_atomic_requests = own if owner is None else OptOuts(owner, own)  # noqa: SLF001 - Django's name


def _taken_over(request: HttpRequest | None, owner: object) -> list[str]:
    """The databases whose transaction Django left to ``owner`` in this request.

    Only when the view was called by the handler, for this request: whoever calls it as a
    function has a transaction already, or wants none.
    """
    match = getattr(request, "resolver_match", None)
    opt_outs = getattr(getattr(match, "func", None), "_non_atomic_requests", None)
    if not isinstance(opt_outs, OptOuts) or opt_outs.owner is not owner:
        return []
    opted_out = set(iter(opt_outs))
    return [
        alias
        for alias, configured in connections.settings.items()
        if configured["ATOMIC_REQUESTS"] and alias not in opted_out
    ]


class RequestTransaction:
    """The transactions that Django would have opened around the view, if `owner` is to open them.

    Of several locks of a view the innermost opens them, so that all are verified before COMMIT.
    """

    # Most requests have none, which a generator's context manager would make expensive.
    __slots__ = ("_aliases", "_stack")

    def __init__(self, request: HttpRequest, owner: object) -> None:
        # Django wraps one alias after the other, so that the last one is the outermost.
        self._aliases = _taken_over(request, owner)[::-1]
        self._stack: ExitStack | None = None

    def __enter__(self) -> None:
        """Open them."""
        if not self._aliases:
            return
        with ExitStack() as stack:
            for alias in self._aliases:
                stack.enter_context(transaction.atomic(using=alias))
            self._stack = stack.pop_all()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """COMMIT, or ROLLBACK."""
        if self._stack is not None:
            self._stack.__exit__(kind, error, traceback)


def refuse_async_transaction(request: HttpRequest | None, owner: object) -> None:
    """Raise what Django raises for an async view, where ``owner`` kept it from looking."""
    if _taken_over(request, owner):
        msg = "You cannot use ATOMIC_REQUESTS with async views."
        raise RuntimeError(msg)
