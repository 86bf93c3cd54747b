"""The place in the user's code that acquired or released the lock, for receivers of its signals."""

from __future__ import annotations

import inspect
from functools import lru_cache
from types import FrameType

_MACHINERY = ("redis_locks", "django.dispatch", "contextlib", "asyncio", "asgiref")


def user_frame() -> tuple[FrameType, int]:
    """Return the innermost frame of the user's code, and how many frames the caller is above it.

    If there is none, as in a thread of our own, it is the outermost frame.
    """
    frame, depth = inspect.currentframe(), -1
    assert frame is not None  # noqa: S101 - CPython has frames
    while frame.f_back is not None and _is_machinery(frame.f_globals.get("__name__", "")):
        frame, depth = frame.f_back, depth + 1
    return frame, depth


def user_function() -> str:
    """Return the module and qualified name of the function of `user_frame`."""
    frame, _ = user_frame()
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"


@lru_cache(maxsize=4096)
def _is_machinery(module: str) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in _MACHINERY)
