"""Holds that blocks enter after they were acquired.

What runs inside is nested in them from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from redis_locks.exceptions import LockError
from redis_locks.locks.hold_errors import AnyHold, require_held
from redis_locks.locks.with_blocks import Block, BlockHold, Part, Watched, watch_loss
from redis_locks.protocol.bridges import waiting_for
from redis_locks.protocol.callers import session
from redis_locks.protocol.lease import BY_HAND, STACK


class Entered(AnyHold, BlockHold, Watched, Protocol):
    """A hold, as far as the beginning of its block goes."""

    called_block: Block | None


H = TypeVar("H", bound=Entered)


def enter(block: Block, parts: Sequence[Part], *, kept: bool) -> None:
    """Let what runs inside `block` be nested in these holds.

    Holds that a transaction has `kept` stay where they are. Raises LockError if another block has
    one of them.
    """
    here = session()
    held = here.held
    callers = waiting_for(here) if here.is_called else ()
    around = [(held, STACK), *((each.held, each.frames) for each in callers)]
    where = BY_HAND if kept else block.where or held.stack
    for part in parts:
        lease = part.lease
        if not lease.enter(part, where, around):
            msg = (
                f"another block has this hold of lock {lease.name!r}, or one that it is nested "
                "with, so two blocks would be inside. Acquire the lock there, or hand on a hold "
                "that was acquired by hand, outside of blocks"
            )
            raise LockError(msg)
        if not (kept or lease.is_shared):  # else others have it, where they are
            lease.move_to(held)


def begin(hold: Entered, block: Block) -> None:
    """Let what runs inside `block`, which is to end a hold, be nested in it.

    Raises LockNotHeld, LockError.
    """
    require_held(hold)
    if not block.has_exit:
        hold.called_block = block  # to which nothing else refers
    enter(block, hold.parts, kept=hold.kept)
    block.append(hold)


async def begin_async(hold: H, block: Block) -> H:
    """Begin an async block; see `begin` and `Hold.__aenter__`."""
    begin(hold, block)
    if watch_loss(hold):
        await hold.aend_block(None)
    return hold
