"""The views of the URLconf, and what a view is made of."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import getclosurevars, isfunction, ismethod
from types import FunctionType
from typing import Any, NamedTuple

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.decorators import method_decorator

from redis_locks.decorators.locked_function import LockedFunction
from redis_locks.decorators.redis_lock import redis_lock


class Route(NamedTuple):
    """A view, where it is, and the names of the keywords that the URL gives it."""

    route: str
    view: Any
    keywords: frozenset[str]


def routes() -> Iterator[Route]:
    """Yield the views of the project's URLconf; none if it has no URLconf."""
    if getattr(settings, "ROOT_URLCONF", None):
        yield from _below(get_resolver(), "", frozenset())


def _below(resolver: URLResolver, prefix: str, keywords: frozenset[str]) -> Iterator[Route]:
    for entry in resolver.url_patterns:
        route = f"{prefix}{entry.pattern}"
        given = keywords | set(entry.pattern.regex.groupindex)
        if isinstance(entry, URLResolver):
            yield from _below(entry, route, given | set(entry.default_kwargs))
        elif isinstance(entry, URLPattern):
            yield Route(route, entry.callback, given | set(entry.default_args))


def initkwargs_of(view: Any) -> Mapping[str, Any]:
    """Return what the URLconf gave to the view's ``as_view``."""
    # The second name is that of a viewset.
    given = getattr(view, "view_initkwargs", None) or getattr(view, "initkwargs", None)
    return given or {}


def decorated_in(thing: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each lock that decorates a function in there, and that function.

    As far as can be seen.
    """
    yield from _decorated_in(thing, set())


def _decorated_in(thing: Any, seen: set[int]) -> Iterator[tuple[Any, Any]]:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isfunction(thing) and thing.__code__ is _METHOD.__code__:
        yield from _locks_of_method(thing)
    for part in parts_of(thing):
        if is_a(part, LockedFunction):
            yield part.owner, part.function
        if is_a(part, LockedFunction) or (callable(part) and not is_a(part, (type, redis_lock))):
            yield from _decorated_in(part, seen)


_METHOD = method_decorator(lambda method: method)(lambda _: None)
"""What `method_decorator` makes of a method: all these functions have the same code."""


def _locks_of_method(method: FunctionType) -> Iterator[tuple[Any, Any]]:
    """Yield each lock that a `method_decorator` has, and what that decorates at each call."""
    kept = getclosurevars(method).nonlocals
    inside, inner = kept["method"], []
    for decorator in kept["decorators"]:
        if not is_a(decorator, redis_lock):
            inner.append(decorator)
            continue
        while inner:
            with suppress(Exception):  # a call of the view says what is wrong with it
                inside = inner.pop(0)(inside)
        yield decorator, inside


def parts_of(thing: Any) -> Iterable[Any]:
    """Yield what a decorated function calls, and its decorators."""
    for part in _kept_by(thing):
        # By type(), because isinstance() would make a lazy object load its value.
        yield from part if is_a(part, (list, tuple)) else (part,)


def _kept_by(thing: Any) -> Iterator[Any]:
    if is_a(thing, LockedFunction):
        yield thing.function
    elif is_a(thing, functools.partial):
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


def is_a(thing: object, kind: type | tuple[type, ...]) -> bool:
    """Whether it is of a type, asked without loading a lazy object."""
    return issubclass(type(thing), kind)
