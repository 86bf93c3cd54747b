"""Whether a call is that of a view, what it asks for, and whether the view can do that at all."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.views import View

MAX_LABEL = 200
"""Characters of a request that its hold or wait keeps in Redis."""

SAFE: Final = frozenset({"HEAD", "OPTIONS"})
"""Methods that may change nothing, and that clients send to find out about a view."""


def request_of(args: tuple[object, ...]) -> HttpRequest | None:
    """The request, if these are the arguments of a view: the first one, or after ``self``."""
    for value in args[:2]:
        # By type(): isinstance() would make a lazy object (a user) fetch what it stands for.
        if issubclass(type(value), HttpRequest):
            return value  # type: ignore[return-value]
        if _is_of_api(value):
            return vars(value)["_request"]  # type: ignore[no-any-return]  # it has no public name
    return None


def is_of_api(args: tuple[object, ...]) -> bool:
    """Whether the request in the arguments of a view is Django REST framework's."""
    return any(map(_is_of_api, args[:2]))


def _is_of_api(value: object) -> bool:
    """Whether `value` is the framework's own request, which it puts around Django's."""
    # Not imported here: a process that has such a request has imported the framework.
    framework = sys.modules.get("rest_framework.request")
    return framework is not None and issubclass(type(value), framework.Request)


def is_api_class(kind: type) -> bool:
    """Whether `kind` is a class of Django REST framework's views."""
    framework = sys.modules.get("rest_framework.views")  # as above
    return framework is not None and issubclass(kind, framework.APIView)


def after_request(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the positional arguments of a view after its request."""
    return args[1:] if request_of(args[:1]) is not None else args[2:]


def label_of(request: HttpRequest) -> str:
    """What a holder that serves this request does, for people.

    The client may have written a lot.
    """
    return f"{request.method} {request.path}"[:MAX_LABEL]


def view_of(function: Any, args: tuple[object, ...]) -> View | None:
    """The class-based view of which `function` is a method, called with `args`.

    None if it is no method.
    """
    bound = function
    if isinstance(bound, functools.partial):  # made by method_decorator
        bound = bound.func
    view = getattr(bound, "__self__", args[0] if args else None)
    return view if isinstance(view, View) else None


def needs_lock(view: object, method: str | None) -> bool:
    """Whether a request with `method` may change what the lock of `view` guards.

    HEAD and OPTIONS do not. Nor does a method that a class-based view lacks: the view answers 405.

    Args:
        view: An instance of a view's class, or the function that the URLconf has.
        method: The method of the request.
    """
    if method is None:
        return True
    if method in SAFE:
        return False
    handler = method.lower()
    actions = getattr(view, "actions", None)  # of a viewset of Django REST framework
    if isinstance(actions, dict):
        return handler in actions
    kind = view if isinstance(view, View) else class_of(view)
    return kind is None or (handler in kind.http_method_names and hasattr(kind, handler))


def require_reached(kind: type, mixin: type, *methods: str) -> None:
    """Raise ImproperlyConfigured if a class before `mixin` never calls the mixin's method.

    The class overrides that method.

    Then no request would take the mixin's lock.
    """
    for each in kind.__mro__[: kind.__mro__.index(mixin)]:
        for name in vars(each).keys() & {*methods}:
            method_of = inspect.unwrap(vars(each)[name])
            code = getattr(method_of, "__code__", None)
            is_ours = method_of is vars(mixin).get(name)  # that of the mixin, decorated
            if is_ours or code is None or name in code.co_names:  # such as super().dispatch
                continue
            ours = "RedisLockAPIMixin" if is_api_class(kind) else mixin.__name__
            method = f"{each.__module__}.{each.__qualname__}.{name}()"
            fix = (
                f"Call super().{name}() in it"
                if each is kind
                else f"Write the mixin before {each.__name__}: class {kind.__name__}({ours}, ...)"
            )
            msg = (
                f"{kind.__module__}.{kind.__qualname__} would take no lock, because {method} does "
                f"not call the mixin's. {fix}"
            )
            raise ImproperlyConfigured(msg)


def class_of(view: object) -> type[View] | None:
    """Return the class of the view, or of the viewset, whose function the URLconf has.

    None if it has no class.
    """
    kind = getattr(view, "view_class", None) or getattr(view, "cls", None)  # of a viewset
    return kind if isinstance(kind, type) and issubclass(kind, View) else None
