"""System checks of views and their transactions, found by walking the URLconf.

The outermost lock of a view opens the transactions of ATOMIC_REQUESTS itself. Any other lock is
acquired inside these, and one of them keeps it, unless the lock's options say otherwise. What runs
around that lock has no transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import unwrap
from typing import Any, NamedTuple

from asgiref.sync import iscoroutinefunction
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import Atomic

from redis_locks.checks.urlconf import initkwargs_of, is_a, parts_of, routes
from redis_locks.decorators.locked_function import LockedFunction
from redis_locks.decorators.view_calls import class_of
from redis_locks.locks.lock import Lock
from redis_locks.locks.scope import Scope
from redis_locks.views import RedisLockMixin

ENDS_BEFORE_COMMIT = "redis_locks.W005"

BEFORE_TRANSACTION = "redis_locks.W015"

_HINT = (
    "Take the lock before the transaction: write it above atomic, and use functools.wraps in the "
    "decorators above it. Or let the transaction keep it: scope='auto', and as database=... only "
    "the one that is written to (lock_scope and lock_database of a mixin)"
)

_DISPATCH_HINT = (
    "Write to the database in a method that the mixin's dispatch calls, such as post(). Or let "
    "Django open the transaction around dispatch, with lock_scope = 'transaction'. If dispatch "
    "writes nothing, silence this check"
)

Aliases = frozenset[str]


class _Found(NamedTuple):
    lock: str
    """The lock as source text."""
    scope: Scope
    around: Aliases
    """The databases that have a transaction around the lock."""


def check_views(**_: object) -> list[CheckMessage]:
    """Return a warning for each view that releases a lock before COMMIT.

    Also for a view whose own dispatch has no transaction.
    """
    return [warning for route, view, _ in routes() for warning in _warnings_of(route, _Walk(view))]


def _warnings_of(route: str, walk: _Walk) -> Iterator[CheckMessage]:
    for found in walk.locks():
        if aliases := _committed_later(found):
            yield Warning(
                f"The view at {route!r} releases {found.lock} before COMMIT on database "
                f"{', '.join(map(repr, aliases))}: the next holder may not see what was written.",
                hint=_HINT,
                id=ENDS_BEFORE_COMMIT,
            )
    if walk.dispatches_early():
        yield Warning(
            f"The view at {route!r} has a dispatch() of its own around its lock. The transaction "
            "of ATOMIC_REQUESTS opens inside the lock, so it does not roll back what this "
            "dispatch() writes.",
            hint=_DISPATCH_HINT,
            id=BEFORE_TRANSACTION,
        )


def _committed_later(found: _Found) -> list[str]:
    scope = found.scope
    if scope.name != "block" and scope.database is None:
        return []
    return sorted(found.around - (set() if scope.name == "block" else {scope.database}))


class _Walk:
    """A walk from a view inwards, through its decorators."""

    def __init__(self, view: Any) -> None:
        self._view = view
        without = getattr(view, "_non_atomic_requests", ())
        self._opens = getattr(without, "owner", None)
        """The lock that opens the transactions of ATOMIC_REQUESTS; None: Django does."""
        opted_out = set(iter(without))  # what OptOuts was given
        self._requests: Aliases = frozenset(
            alias
            for alias, configured in connections.settings.items()
            if configured["ATOMIC_REQUESTS"] and alias not in opted_out
        )
        # The objects are kept, too: another object may get the id of one that is gone.
        self._seen: dict[int, Any] = {}

    def locks(self) -> Iterator[_Found]:
        """Yield the locks that decorators acquire in a call of the view, as far as can be seen."""
        return self._visit(self._view, frozenset() if self._opens else self._requests)

    def dispatches_early(self) -> bool:
        """Whether an overriding `dispatch` runs before the lock opens the transactions.

        It overrides the mixin's.
        """
        kind = self._opens
        if not self._requests or not isinstance(kind, type):
            return False
        # Not those of mixins beside ours, such as LoginRequiredMixin.
        locked = [each for each in kind.__mro__ if issubclass(each, RedisLockMixin)]
        dispatch = next(vars(each)["dispatch"] for each in locked if "dispatch" in vars(each))
        # Unwrapped: method_decorator(..., name="dispatch") wraps the mixin's.
        return not unwrap(dispatch).__module__.startswith("redis_locks.")

    def _visit(self, thing: Any, around: Aliases) -> Iterator[_Found]:
        if id(thing) in self._seen or iscoroutinefunction(thing):  # async code has no transactions
            return
        self._seen[id(thing)] = thing
        parts = list(parts_of(thing))
        inside = around
        for part in parts:
            lock = part.owner if is_a(part, LockedFunction) else part
            if is_a(lock, Lock):
                yield _Found(repr(lock), lock.scope, around)
                inside |= self._requests if lock is self._opens else frozenset()
            elif is_a(lock, Atomic):
                inside |= {part.using or DEFAULT_DB_ALIAS}
        for part in parts:
            if is_a(part, LockedFunction) or (
                callable(part) and not is_a(part, (type, Lock, Atomic))
            ):
                yield from self._visit(part, inside)
        kind = class_of(thing)
        if kind is not None:
            yield from self._visit_class(thing, kind, inside)

    def _visit_class(self, view: Any, kind: Any, around: Aliases) -> Iterator[_Found]:
        if id(kind) in self._seen:
            return
        self._seen[id(kind)] = kind
        yield from self._visit(kind.dispatch, around)
        if issubclass(kind, RedisLockMixin):
            given = initkwargs_of(view)
            name = given.get("lock_scope", kind.lock_scope)
            database = given.get("lock_database", kind.lock_database)
            scope = Scope(name, database, commit_guard=True)
            yield _Found(f"the lock of {kind.__qualname__}", scope, around)
        # The lock that opens the transactions does so before the handlers.
        inside = around | (self._requests if self._opens else frozenset())
        actions = getattr(view, "actions", None)  # of a viewset
        for name in (*kind.http_method_names, *(actions or {}).values()):
            yield from self._visit(getattr(kind, name, None), inside)
