"""Where in the user's code a receiver of a lock's signals was called."""

from __future__ import annotations

import inspect
from functools import lru_cache
from types import FrameType

_MACHINERY = ("redis_locks", "django.dispatch", "contextlib", "asyncio", "asgiref")


def user_frame() -> tuple[FrameType, int]:
    """Return the innermost frame that is not machinery, and how many frames the caller is above it.

    Without such a frame, as in a thread of our own, it is the outermost one.
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
