"""asgiref's bridges between sync and async code: which thread or task itself waits for the very call that runs here.

A call's context does not tell. It comes down to all tasks that are started in it, and these go on by themselves. So what
waits is looked at: the chain of awaits of a task, or the frames of a thread, must end in this call. What cannot be
shown, or a version of asgiref that is written in another way, gives no answer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import takewhile
from types import FrameType
from typing import Any, Final

from asgiref.sync import AsyncToSync, SyncToAsync

from redis_locks.values import identity
from redis_locks.values.identity import Session

_TO_ASYNC: Final = SyncToAsync.__call__.__code__
_TO_SYNC: Final = AsyncToSync.__call__.__code__
_IN_LOOP: Final = AsyncToSync.main_wrap.__code__


def waiting_for(its: Session) -> Iterator[Session]:
    """Yield the tasks and threads that wait for the call in which `its` runs, from the nearest on."""
    found: Session | None = its
    while found is not None:
        found = _thread_waiting_for(found) if found.call is None else _task_waiting_for(found)
        if found is not None:
            yield found


def _task_waiting_for(its: Session) -> Session | None:
    """Return the task that awaits a ``sync_to_async`` call."""
    for candidate in its.around:
        for frame in _frames_of(candidate.task):
            if frame.f_code is _TO_ASYNC and frame.f_locals.get("task_context") is its.call:
                return candidate
    return None


def _thread_waiting_for(its: Session) -> Session | None:
    """Return the thread, or the call in it, that waits for a task which ``async_to_sync`` has started."""
    started = next((each for each in _frames_of(its.task) if each.f_code is _IN_LOOP), None)
    if started is None:
        return None
    result, call = started.f_locals.get("call_result"), started.f_locals.get("task_context")
    for thread, top in sys._current_frames().items():  # noqa: SLF001 - documented
        for frame in _stack(top):
            if frame.f_code is _TO_SYNC and frame.f_locals.get("call_result") is result:
                in_call = [each for each in its.around if call is not None and each.call is call]
                return in_call[0] if in_call else identity.process.threads.get(thread)
    return None


def _frames_of(task: asyncio.Task[Any] | None) -> Iterator[FrameType]:
    """Yield the frames of a task: those that wait, or those that run. It may begin to wait at any moment."""
    awaiting: Any = None if task is None else task.get_coro()
    if awaiting is not None:
        yield from _waiting(awaiting)
        yield from _running(awaiting)
        yield from _waiting(awaiting)


def _waiting(awaiting: Any) -> Iterator[FrameType]:
    while awaiting is not None:
        frame: FrameType | None = getattr(awaiting, "cr_frame", None)
        if frame is not None:
            yield frame
        awaiting = getattr(awaiting, "cr_await", None)


def _running(awaiting: Any) -> Iterator[FrameType]:
    outermost = getattr(awaiting, "cr_frame", None)
    for top in sys._current_frames().values():  # noqa: SLF001 - documented
        above = list(takewhile(lambda frame: frame is not outermost, _stack(top)))
        if above and above[-1].f_back is outermost:
            yield from above


def _stack(top: FrameType | None) -> Iterator[FrameType]:
    while top is not None:
        yield top
        top = top.f_back
