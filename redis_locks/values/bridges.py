"""asgiref's bridges between sync and async code: which thread or task itself waits for the very call that runs here.

A call's context does not tell. It comes down to all tasks that are started in it, and these go on by themselves. So what
waits is looked at: the chain of awaits of a task, or the frames of a thread, must end in this call. What cannot be
shown, or a version of asgiref that is written in another way, gives no answer.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator, Sequence
from types import AsyncGeneratorType, FrameType
from typing import Any, Final, NamedTuple

from asgiref.sync import AsyncToSync, SyncToAsync

from redis_locks.values import identity
from redis_locks.values.identity import Session
from redis_locks.values.local_locks import Held

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


def waiting_for(its: Session) -> Iterator[Waiting]:
    """Yield the tasks and threads that wait for the call in which `its` runs, from the nearest on."""
    call, task, around = its.call, its.task, its.around
    while True:
        if task is not None:
            thread, call, frames = _thread_waiting_for(task)
            in_thread = [each for each in around if call is not None and each.call is call]
            in_thread += filter(None, [identity.process.threads.get(thread)])
            yield from (Waiting(each.held, frames) for each in in_thread)
            task = None
        elif call is not None:
            for candidate in around:
                frames = _frames_to(candidate.task, call)
                if frames:
                    yield Waiting(candidate.held, frames)
                    task, call, around = candidate.task, None, [*candidate.around, *around]
                    break
            else:
                return
        else:
            return


def _frames_to(task: asyncio.Task[Any] | None, call: object) -> list[FrameType]:
    """Return the frames of a task that awaits a ``sync_to_async`` call; none if it does not."""
    for frames in _frames_of(task):
        if any(
            frame.f_code is _TO_ASYNC and frame.f_locals.get("task_context") is call
            for frame in frames
        ):
            return frames
    return []


def _thread_waiting_for(task: asyncio.Task[Any]) -> tuple[int, Any, list[FrameType]]:
    """Return the thread that waits for a task which ``async_to_sync`` has started, its call, if it is one, and its frames."""
    for frames in _frames_of(task):
        for started in frames:
            if started.f_code is _IN_LOOP:
                result, call = (
                    started.f_locals.get(each) for each in ("call_result", "task_context")
                )
                for thread, top in sys._current_frames().items():
                    stack = list(_stack(top))
                    if any(
                        each.f_code is _TO_SYNC and each.f_locals.get("call_result") is result
                        for each in stack
                    ):
                        return thread, call, stack
    return 0, None, []


def _frames_of(task: asyncio.Task[Any] | None) -> Iterator[list[FrameType]]:
    """Yield the frames of a task: those that wait, or those that run. It may begin to wait at any moment."""
    outermost: Any = None if task is None else task.get_coro()
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
        stack = list(_stack(top))
        if first in stack:
            return stack[: stack.index(first) + 1]
    return []


def _stack(top: FrameType | None) -> Iterator[FrameType]:
    while top is not None:
        yield top
        top = top.f_back
