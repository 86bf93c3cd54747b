"""System checks of the locks that views take: one without a name, too early, or never taken.

A lock's template may want what the URL does not give. The lock may come before the check of
permissions. Or nothing takes the mixin's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from django.contrib.auth.mixins import AccessMixin
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name
from django.views import View

from redis_locks.checks.urlconf import Route, decorated_in, initkwargs_of, routes
from redis_locks.decorators.responses import is_api_view
from redis_locks.decorators.view_calls import class_of, is_api_class, needs_lock
from redis_locks.values.name_templates import parse
from redis_locks.views import RedisLockMixin

NO_NAME = "redis_locks.W014"
BEFORE_PERMISSION = "redis_locks.W016"
NO_METHOD = "redis_locks.W018"


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
    kind, places = class_of(route.view), [route.view]
    if kind is not None:
        handlers = _handlers(route.view, kind)
        if issubclass(kind, RedisLockMixin):
            yield from _of_mixin(route, kind, handlers)
        if handlers:
            places += [getattr(kind, name, None) for name in ("dispatch", *handlers.values())]
    for lock, function in chain.from_iterable(map(decorated_in, places)):
        yield from _of_lock(lock, function, route.keywords)


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


def check_view_order(**_: object) -> list[CheckMessage]:
    """Return a warning for each view that takes its lock too early, or never."""
    return [*_too_early(), *_never()]


def _never() -> Iterator[CheckMessage]:
    """Yield a warning for each view with the mixin that handles none of its `lock_methods`."""
    for route in routes():
        kind = class_of(route.view)
        # Of a viewset, another route may have the method.
        if kind is None or not issubclass(kind, RedisLockMixin) or hasattr(route.view, "actions"):
            continue
        methods = initkwargs_of(route.view).get("lock_methods", kind.lock_methods)
        if methods and not any(needs_lock(route.view, method) for method in methods):
            yield Warning(
                f"The view at {route.route!r} never takes its lock: {kind.__qualname__} handles "
                f"none of its lock_methods, {', '.join(methods)}.",
                hint="Name the methods that need the lock in lock_methods, leave RedisLockMixin "
                "out, or write lock_methods = ().",
                id=NO_METHOD,
            )


def _too_early() -> list[CheckMessage]:
    return [
        Warning(
            f"The view at {route.route!r} takes its lock before it checks permissions. So "
            "strangers can wait for the lock and hold it.",
            hint=f"{hint}. If the check itself needs the lock, silence this one.",
            id=BEFORE_PERMISSION,
        )
        for route in routes()
        for hint in dict.fromkeys(_hints(route.view))
    ]


def _hints(view: Any) -> Iterator[str]:
    """Yield how to put right each order that is wrong."""
    kind = class_of(view)
    places = [view]
    if kind is not None:
        yield from _hints_of_class(kind)
        places += [getattr(kind, name, None) for name in ("dispatch", *kind.http_method_names)]
    for lock, function in chain.from_iterable(map(decorated_in, places)):
        if is_api_view(function):
            yield f"Write {lock!r} below @api_view, or use RedisLockAPIMixin for a class"
        elif hasattr(function, "login_url"):
            # What user_passes_test and its relatives leave on a function.
            yield (
                f"Write {lock!r} below the decorator that checks permissions, such as "
                "@login_required"
            )


def _hints_of_class(kind: type) -> Iterator[str]:
    lineage = kind.__mro__
    names = [each.__name__ for each in lineage]
    # A mixin of the framework's own checks permissions in `initial`, before it takes the lock.
    at_dispatch = issubclass(kind, RedisLockMixin) and "RedisLockAPIMixin" not in names
    checks = [each for each in lineage if issubclass(each, AccessMixin) and each is not AccessMixin]
    access = next((each for each in checks if not issubclass(each, RedisLockMixin)), None)
    if at_dispatch and is_api_class(kind):
        yield (
            f"Write class {kind.__name__}(RedisLockAPIMixin, ...), with the mixin of "
            "redis_locks.integrations.rest_framework"
        )
    elif (
        at_dispatch and access is not None and names.index("RedisLockMixin") < lineage.index(access)
    ):
        yield f"Write class {kind.__name__}({access.__name__}, RedisLockMixin, ...)"
    for lock, _ in decorated_in(vars(kind).get("dispatch")):
        if is_api_class(kind):
            yield f"Use RedisLockAPIMixin in place of {lock!r} around dispatch()"
        elif access is not None:
            yield f"Decorate the handlers, such as post(), with {lock!r}, not dispatch()"
