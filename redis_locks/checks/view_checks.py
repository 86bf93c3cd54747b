"""Views whose lock ends before COMMIT, found by walking the URLconf.

A lock that Django sees at the view opens the transactions of ATOMIC_REQUESTS itself; any other
lock is taken inside of them, and kept by one of them unless its options say otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from inspect import isfunction, ismethod
from typing import Any, NamedTuple

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import Atomic
from django.urls import URLPattern, URLResolver, get_resolver
from django.views import View

from redis_locks.decorators.locked_function import LockedFunction
from redis_locks.locks.lock import Lock
from redis_locks.locks.scope import Scope
from redis_locks.views import RedisLockMixin

ENDS_BEFORE_COMMIT = "redis_locks.W005"

_HINT = (
    "Let the lock begin before the transaction: use functools.wraps in decorators that stand "
    "above it, and write it above atomic. Or let the transaction keep it: scope='auto', and the "
    "database that is written to as database=... (lock_scope and lock_database of a mixin)"
)

Aliases = frozenset[str]


class _Found(NamedTuple):
    lock: str
    """As source text."""
    scope: Scope
    around: Aliases
    """The databases that have a transaction around the lock."""


def check_views(**_: object) -> list[CheckMessage]:
    """A warning of each view that releases a lock before a transaction around it is committed."""
    if not getattr(settings, "ROOT_URLCONF", None):
        return []
    return [
        Warning(
            f"The view at {route!r} releases {found.lock} before COMMIT on database "
            f"{', '.join(map(repr, aliases))}: the next holder may not see what was written.",
            hint=_HINT,
            id=ENDS_BEFORE_COMMIT,
        )
        for route, view in _views(get_resolver(), "")
        for found in _Walk(view).locks()
        if (aliases := _committed_later(found))
    ]


def _committed_later(found: _Found) -> list[str]:
    kept_by = set() if found.scope.name == "block" else {found.scope.database}
    return sorted(found.around - kept_by)


def _views(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, Any]]:
    for entry in resolver.url_patterns:
        route = f"{prefix}{entry.pattern}"
        if isinstance(entry, URLResolver):
            yield from _views(entry, route)
        elif isinstance(entry, URLPattern):
            yield route, entry.callback


class _Walk:
    """From a view inwards, through what its decorators have kept."""

    def __init__(self, view: Any) -> None:
        self._view = view
        without = getattr(view, "_non_atomic_requests", ())
        self._opens = getattr(without, "owner", None)
        """The lock that opens the transactions of ATOMIC_REQUESTS; None: Django does."""
        opted_out = set(iter(without))  # what OptOuts really contains
        self._requests: Aliases = frozenset(
            alias
            for alias, configured in connections.settings.items()
            if configured["ATOMIC_REQUESTS"] and alias not in opted_out
        )
        # With the objects, for the id of one that is gone may be another's.
        self._seen: dict[int, Any] = {}

    def locks(self) -> Iterator[_Found]:
        """Every lock that a call of the view takes by a decorator, as far as can be seen."""
        return self._visit(self._view, frozenset() if self._opens else self._requests)

    def _visit(self, thing: Any, around: Aliases) -> Iterator[_Found]:
        if id(thing) in self._seen or iscoroutinefunction(thing):  # async code has no transactions
            return
        self._seen[id(thing)] = thing
        parts = list(_parts(thing))
        inside = around
        for part in parts:
            lock = part.owner if _is(part, LockedFunction) else part
            if _is(lock, Lock):
                yield _Found(repr(lock), lock.scope, around)
                inside |= self._requests if lock is self._opens else frozenset()
            elif _is(lock, Atomic):
                inside |= {part.using or DEFAULT_DB_ALIAS}
        for part in parts:
            if _is(part, LockedFunction) or (
                callable(part) and not _is(part, (type, Lock, Atomic))
            ):
                yield from self._visit(part, inside)
        kind = getattr(thing, "view_class", None) or getattr(thing, "cls", None)  # of a viewset
        if isinstance(kind, type) and issubclass(kind, View):
            yield from self._visit_class(thing, kind, inside)

    def _visit_class(self, view: Any, kind: Any, around: Aliases) -> Iterator[_Found]:
        if id(kind) in self._seen:
            return
        self._seen[id(kind)] = kind
        yield from self._visit(kind.dispatch, around)
        if issubclass(kind, RedisLockMixin):
            given = getattr(view, "view_initkwargs", None) or getattr(view, "initkwargs", {})
            name = given.get("lock_scope", kind.lock_scope)
            database = given.get("lock_database", kind.lock_database)
            scope = Scope(name, database, commit_guard=True)
            yield _Found(f"the lock of {kind.__qualname__}", scope, around)
        # Whichever lock opens the transactions, it does so before the handlers.
        inside = around | (self._requests if self._opens else frozenset())
        actions = getattr(view, "actions", None)  # of a viewset
        for name in (*kind.http_method_names, *(actions or {}).values()):
            yield from self._visit(getattr(kind, name, None), inside)


def _parts(thing: Any) -> Iterable[Any]:
    """What a decorated function calls, and by what it is decorated."""
    for part in _kept_by(thing):
        # By type(): isinstance() would make a lazy object fetch what it stands for.
        yield from part if _is(part, (list, tuple)) else (part,)


def _kept_by(thing: Any) -> Iterator[Any]:
    if _is(thing, LockedFunction):
        yield thing.function
    elif _is(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif ismethod(thing):
        yield thing.__func__
    elif isfunction(thing):
        for cell in thing.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        yield getattr(thing, "__wrapped__", None)
    elif callable(thing):  # an object in place of a function
        yield from (type(thing).__call__, *getattr(thing, "__dict__", {}).values())


def _is(thing: object, kind: type | tuple[type, ...]) -> bool:
    return issubclass(type(thing), kind)
