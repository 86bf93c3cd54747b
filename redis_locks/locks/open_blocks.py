"""Open `with` blocks of a lock that threads and tasks share."""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop  # documented, and public in all but name
from threading import get_ident
from typing import Any

from redis_locks.locks.hold import Hold


class OpenBlocks:
    """Which hold belongs to which open `with` block of a lock that is shared.

    Each thread and each task has a stack of its own, so nobody can close another's block.
    A block that is left elsewhere than it was entered (a generator that moved on to another
    thread) is found when it is the only one open.
    """

    __slots__ = ("_stacks",)

    # No mutex: each thread and task touches only its own entry, and a mutex could be
    # inherited locked by a forked child.

    def __init__(self) -> None:
        self._stacks: dict[Any, list[Hold]] = {}

    def push(self, hold: Hold) -> Hold:
        """Note that a block was entered here with `hold`."""
        # Asked first because it is cheap: `current_task` raises where no loop runs.
        here = get_ident() if _get_running_loop() is None else _current_task()
        self._stacks.setdefault(here, []).append(hold)
        return hold

    def pop(self) -> Hold:
        """Return the hold of the block that is left here; raises RuntimeError if there is none."""
        here = get_ident() if _get_running_loop() is None else _current_task()
        if here not in self._stacks:
            if len(self._stacks) != 1:
                msg = "this block was entered in another thread or task; use `with lock.hold():` there"
                raise RuntimeError(msg)
            here = next(iter(self._stacks))
        stack = self._stacks[here]
        hold = stack.pop()
        if not stack:
            del self._stacks[here]
        return hold


def _current_task() -> Any:
    return asyncio.current_task() or get_ident()
