"""Exceptions that come from outside the code that runs.

A time limit may be an `OSError`, as a failed socket call is.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType


def is_interrupt(error: BaseException) -> bool:
    """Return whether a signal's handler raised `error` while other code ran.

    Python calls a handler with the frame that it interrupts, so that frame is among the handler's
    variables.
    """
    trace = error.__traceback__
    while trace is not None and (called := trace.tb_next) is not None:
        if _has(called.tb_frame, trace.tb_frame):
            return True
        trace = called
    return False


def _has(frame: FrameType, caller: FrameType) -> bool:
    """Return whether a variable of `frame` is `caller`, or has it among the arguments of a call."""
    return any(
        value is caller or (type(value) is tuple and any(each is caller for each in value))
        for value in frame.f_locals.values()
    )


def raise_interrupt(answers: Iterable[tuple[object, object]]) -> None:
    """Raise what interrupted a receiver of a Django signal.

    It is among the answers of `send_robust`, if there was one.
    """
    for _, answer in answers:
        if isinstance(answer, Exception) and is_interrupt(answer):
            raise answer


def is_thrown(error: BaseException) -> bool:
    """Return whether something outside raised `error`, which ended a socket call.

    It was a handler, gevent, or another thread.

    What the call itself raises has a number, or says that it timed out.
    """
    if not isinstance(error, OSError) or is_interrupt(error):
        return True
    return error.errno is None and "timed out" not in str(error)


def interrupt_behind(error: BaseException, outer: BaseException | None) -> BaseException | None:
    """Return what interrupted a call to another library, which then raised `error`.

    None: the call failed by itself.

    Args:
        error: What the library raised.
        outer: What was being handled before the call; see `sys.exception`.
    """
    behind: BaseException | None = error
    while behind is not None and behind is not outer:
        if is_interrupt(behind) or _is_thrown_into_socket(behind):
            return behind
        behind = behind.__cause__ or behind.__context__
    return None


def _is_thrown_into_socket(error: BaseException) -> bool:
    """Return whether gevent or another thread raised `error`.

    It is a class without arguments, or in gevent's own code.

    asyncio raises the first by itself.
    """
    if not isinstance(error, OSError) or not is_thrown(error):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return module.startswith("gevent.") or not (error.args or module.startswith("async"))
