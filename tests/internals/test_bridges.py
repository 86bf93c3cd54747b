"""Frames of another thread are read in one step, in which that thread cannot go on."""

from __future__ import annotations

import gc
import sys

from redis_locks.protocol import bridges

DEPTH = 400


def collections_while_read(levels: int) -> int:
    """Read the frames of a deep stack; return how often garbage was collected meanwhile."""
    if levels:
        return collections_while_read(levels - 1)
    started: list[str] = []

    def note(phase: str, _: object) -> None:
        if phase == "start":
            started.append(phase)

    top, before = sys._getframe(), gc.get_threshold()
    gc.collect()
    gc.callbacks.append(note)
    gc.set_threshold(DEPTH // 10)
    try:
        assert len(bridges._stack_of_another(top)) > DEPTH
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)
    return len(started)


def test_no_garbage_is_collected_while_the_frames_of_a_thread_are_read() -> None:
    assert collections_while_read(DEPTH) <= 1  # one that was due is made up for afterwards
    assert gc.isenabled()
