"""System check of views whose lock gets no name.

Its template wants what the URL does not give.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name
from django.views import View

from redis_locks.checks.urlconf import Route, decorated_in, initkwargs_of, routes
from redis_locks.decorators.view_calls import class_of
from redis_locks.values.name_templates import parse
from redis_locks.views import RedisLockMixin

NO_NAME = "redis_locks.W014"


def check_lock_names(**_: object) -> list[CheckMessage]:
    """Return a warning for each view that raises at every request that takes its lock.

    No error, because a decorator may give the view more than the URL does.
    """
    return [
        Warning(
            f"The view at {route.route!r} cannot name its lock: {problem}.",
            hint="Write a field that is an argument of the URL, or override get_lock_name() of a "
            "mixin, or give the decorator a callable. Of a viewset, lock_actions names the "
            "actions that need a lock.",
            id=NO_NAME,
        )
        for route in routes()
        for problem in sorted(set(_problems(route)))
    ]


def _problems(route: Route) -> Iterator[str]:
    kind = class_of(route.view)
    if kind is not None:
        handlers = _handlers(route.view, kind)
        if issubclass(kind, RedisLockMixin):
            yield from _of_mixin(route, kind, handlers)
        if handlers:
            yield from _of_decorators(kind.dispatch, route.keywords)
        for name in handlers.values():
            yield from _of_decorators(getattr(kind, name, None), route.keywords)
    yield from _of_decorators(route.view, route.keywords)


def _handlers(view: Any, kind: type[View]) -> dict[str, str]:
    """Return the methods that a view handles, each with the name of its function."""
    actions: dict[str, str] | None = getattr(view, "actions", None)  # of a viewset
    if actions is not None:
        return dict(actions)
    return {
        method: method
        for method in kind.http_method_names
        if method != "options" and hasattr(kind, method)
    }


def _of_mixin(route: Route, kind: type[RedisLockMixin], handlers: dict[str, str]) -> Iterator[str]:
    given = initkwargs_of(route.view)
    name = given.get("lock_name", kind.lock_name)
    methods = given.get("lock_methods", kind.lock_methods)
    actions = given.get("lock_actions", getattr(kind, "lock_actions", None))
    if kind.get_lock_name is not RedisLockMixin.get_lock_name or not isinstance(name, str):
        return
    by_method = {handler for method, handler in handlers.items() if method.upper() in methods}
    if not (by_method if actions is None else {*actions} & {*handlers.values()}):
        return
    roots = {field.root for field in parse(name).fields}
    for root in roots - route.keywords - {"request"}:
        yield f"lock_name {name!r} of {kind.__qualname__} has {{{root}}}, {_only(route.keywords)}"


def _of_decorators(thing: Any, keywords: frozenset[str]) -> Iterator[str]:
    for lock, function in decorated_in(thing):
        yield from _of_lock(lock, function, keywords)


def _of_lock(lock: Any, function: Any, keywords: frozenset[str]) -> Iterator[str]:
    try:
        missing = lock.keywords_of(function) - keywords
    except ValueError as error:
        yield str(error)
        return
    for root in missing:
        yield f"the name of {lock!r} has {{{root}}}, {_only(keywords)}"


def _only(keywords: frozenset[str]) -> str:
    return f"and the URL gives {', '.join(sorted(keywords)) or 'nothing'}"
