"""asgiref's bridges between sync and async code: which thread or task waits for a call.

It must itself wait for the very call that runs here. A call's context does not tell. It comes down
to all tasks that are started in it, and these go on by themselves. So what waits is looked at: the
chain of awaits of a task, or the frames of a thread, must end in this call. What cannot be shown,
or a version of asgiref that is written in another way, gives no answer.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat, takewhile
from types import AsyncGeneratorType, FrameType
from typing import Any, Final, NamedTuple

from asgiref.sync import AsyncToSync, SyncToAsync

from redis_locks.protocol import callers
from redis_locks.protocol.callers import Held, Session, call_in, since_call, stack

_TO_ASYNC: Final = SyncToAsync.__call__.__code__
_TO_SYNC: Final = AsyncToSync.__call__.__code__
_IN_LOOP: Final = AsyncToSync.main_wrap.__code__
_STEPS: Final = frozenset({"async_generator_asend", "async_generator_athrow", "anext_awaitable"})
"""The types of what is awaited of an async generator, which does not tell of which one."""


class Waiting(NamedTuple):
    """A task or thread that waits for the very call that runs here."""

    held: Held
    """What it holds."""
    frames: Sequence[FrameType]
    """The frames that have led to this call."""


def may_wait_for(session: Session) -> Iterator[Held]:
    """Yield what those hold who may wait for the call in which `session` runs.

    These are all whom `waiting_for` would name, and others. That takes no look at a stack.
    """
    threads = [each() for each in callers.ours.threads.valuerefs()]
    seen = dict.fromkeys(each for each in threads if each is not None)
    beside = [session]
    while beside:
        new = [each for each in beside.pop().around if each not in seen]
        seen.update(dict.fromkeys(new))
        beside += new
    for each in seen:
        yield each.held


def waiting_for(session: Session) -> Iterator[Waiting]:
    """Yield the tasks and threads that wait for the call in which `session` runs, nearest first."""
    call, task, around = session.call, session.task, session.around
    thread, frames = threading.get_ident(), list(stack(sys._getframe()))
    while call is not None or task is not None:
        if task is None:
            found, waiting_frames = _task_waiting_for(call, around)
            if found is not None:
                yield Waiting(found.held, waiting_frames)
                call, task, around = None, found.task, [*found.around, *around]
                continue
            call, frames = _beneath(frames, call)
        else:
            thread, call, frames = _thread_waiting_for(task)
            task = None
        if not frames:
            return
        # A thread waits by the call that it runs now, or by itself. What it has done before may
        # belong to others.
        waiting = [callers.ours.threads.get(thread)] if call is None else around
        for each in [each for each in waiting if each is not None and each.call is call]:
            yield Waiting(each.held, list(since_call(frames)))
            around = [*each.around, *around]


def _task_waiting_for(
    call: object, around: Iterable[Session]
) -> tuple[Session | None, list[FrameType]]:
    """Return the session around whose task awaits a ``sync_to_async`` call, and its frames."""
    for each in around:
        frames = _frames_to(_coroutine_of(each.task), call)
        if frames:
            return each, frames
    return None, []


def _frames_to(outermost: Any, call: object) -> list[FrameType]:
    """Return the frames of a coroutine that awaits a ``sync_to_async`` call; else none."""
    for frames in _frames_of(outermost):
        if any(
            frame.f_code is _TO_ASYNC and frame.f_locals.get("task_context") is call
            for frame in frames
        ):
            return frames
    return []


def _thread_waiting_for(task: asyncio.Task[Any]) -> tuple[int, Any, list[FrameType]]:
    """Return the thread that waits for a task which ``async_to_sync`` has started.

    Return its call, if it is one, and its frames, too.
    """
    for frames in _frames_of(_coroutine_of(task)):
        for started in frames:
            if started.f_code is _IN_LOOP:
                result = started.f_locals.get("call_result")
                for thread, top in sys._current_frames().items():
                    theirs = _stack_of_another(top)
                    for place, frame in enumerate(theirs):
                        if frame.f_code is _TO_SYNC and frame.f_locals.get("call_result") is result:
                            return thread, call_in(theirs[place:]), theirs[place:]
    return 0, None, []


def _beneath(frames: Sequence[FrameType], call: object) -> tuple[Any, list[FrameType]]:
    """Return which call of the same thread waits for `call` by ``async_to_sync``; None for none.

    Return its frames, if any, too.
    """
    for place, frame in enumerate(frames):
        if frame.f_code is _TO_SYNC and _frames_to(frame.f_locals.get("awaitable"), call):
            return call_in(frames[place:]), list(frames[place:])
    return None, []


def _coroutine_of(task: asyncio.Task[Any] | None) -> Any:
    return None if task is None else task.get_coro()


def _frames_of(outermost: Any) -> Iterator[list[FrameType]]:
    """Yield the frames of a task's coroutine: those that wait, or those that run.

    It may begin to wait at any moment.
    """
    if outermost is not None:
        yield list(_suspended(outermost))
        yield _running(outermost)
        yield list(_suspended(outermost))


def _suspended(awaiting: Any) -> Iterator[FrameType]:
    while awaiting is not None:
        frame: FrameType | None = None
        following = None
        for kind in ("cr", "ag", "gi"):
            frame = frame or getattr(awaiting, f"{kind}_frame", None)
            following = following or getattr(
                awaiting, f"{kind}_{'yieldfrom' if kind == 'gi' else 'await'}", None
            )
        if frame is not None:
            yield frame
        elif type(awaiting).__name__ in _STEPS:
            following = next((each for each in gc.get_referents(awaiting) if _is_step(each)), None)
        awaiting = following


def _is_step(each: object) -> bool:
    return isinstance(each, AsyncGeneratorType) or type(each).__name__ in _STEPS


def _running(outermost: Any) -> list[FrameType]:
    first = getattr(outermost, "cr_frame", None)
    for top in sys._current_frames().values():
        frames = _stack_of_another(top)
        if first in frames:
            return frames[: frames.index(first) + 1]
    return []


def _stack_of_another(top: FrameType) -> list[FrameType]:
    """Return the frames that have led to a frame of another thread, from that on.

    In one step of the interpreter, in which that thread cannot go on: frames that come and go have
    crashed CPython 3.11. A collection of garbage would run finalizers in between, and so let the
    thread go on.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return list(takewhile(bool, accumulate(repeat("f_back"), getattr, initial=top)))
    finally:
        if collects:
            gc.enable()
