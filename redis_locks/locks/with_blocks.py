"""Blocks: which hold the end of a `with` or `async with` statement ends, and what runs inside it.

Python looks up the method that ends a block just before it calls the one that begins it. So each
block gets an `Exit` of its own, which knows its holds. Any thread or task that ends the block ends
those holds and no others.
"""

from __future__ import annotations

import os
import sys
from asyncio import _get_running_loop  # documented, and public in all but name
from collections.abc import Callable, Sequence
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from opcode import opmap
from threading import get_ident
from types import FrameType
from typing import Any, Final, Protocol, TypeVar, cast
from weakref import ref

from django.core.exceptions import SynchronousOnlyOperation

from redis_locks.protocol.callers import session, stack
from redis_locks.protocol.lease import CancelledByLoss, Lease

F = TypeVar("F", bound=Callable[..., Any])

_SUSPENDS: Final = CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR
"""The flags of code that may run for a context manager's caller, as the generator of a
``contextmanager`` does.
"""

_STACKS: Final = frozenset({"enter_context", "enter_async_context"})
"""The names of methods of exit stacks that enter a block."""

_ENTERS: Final = _STACKS | {"__enter__", "__aenter__"}
"""The names of functions that enter a block for their caller."""

_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
"""The names of code that is part of a function, and has a frame of its own in Python 3.11."""

_WITH: Final = frozenset(
    opmap[each] for each in ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL") if each in opmap
)
"""What a `with` or `async with` statement begins with, by the version of Python."""
_AWAIT: Final = opmap["GET_AWAITABLE"]
_LONGEST_AWAIT: Final = 20
"""How many bytes of code an await takes at most, in any version of Python."""

FIX_OF_FUNCTION: Final = (
    "Put the decorator next to `async def`, below decorators that are plain functions, or mark the "
    "function with inspect.markcoroutinefunction"
)
"""What to do about a decorated function that is called there."""


class BlockHold(Protocol):
    """What the end of a block ends: a hold, or several."""

    @property
    def kept(self) -> bool:
        """Whether a transaction keeps it for longer than the block."""

    @property
    def is_open(self) -> bool:
        """Whether it has yet to be released."""

    def end_block(self, error: BaseException | None) -> None:
        """Release at the end of a block, which ended with `error`."""

    async def aend_block(self, error: BaseException | None) -> None:
        """Release at the end of an async block."""

    def leave_behind(self) -> None:
        """Leave the lock to its lease, as an interrupt kept the block's end from releasing it."""


class Part(Protocol):
    """What is held of one partition."""

    @property
    def lease(self) -> Lease:
        """Its lease."""


class Watched(Protocol):
    """A hold whose loss cancels the task that runs its async block."""

    cancelled: CancelledByLoss | None

    @property
    def is_lost(self) -> bool:
        """Whether it is lost."""

    @property
    def parts(self) -> Sequence[Part]:
        """What is held of each partition."""


class Block(list[BlockHold]):
    """The holds that one block has, or is about to have: the last one is what it is to end."""

    __slots__ = ("__weakref__", "frame", "has_exit", "where")

    frame: FrameType | None
    """The frame for which it was entered: what runs under that is inside. None: all that its
    thread, task or call runs.
    """
    where: ref[Block] | None
    """A reference to it, if it has a frame; see `Side.where`."""
    has_exit: bool
    """Whether an `Exit` ends it; else it was entered by a call of `__enter__` or `__aenter__`."""

    @classmethod
    def of_call(cls) -> Block:
        """Return the block of a call, request or transaction: all that its thread runs is in it."""
        block = cls()
        block.frame, block.where, block.has_exit = None, None, True
        return block

    def end(self, error: BaseException | None) -> None:
        """Release what the block has, at its end with `error`. Doing it again does nothing."""
        if self:
            self[-1].end_block(error)
            self.clear()

    async def aend(self, error: BaseException | None) -> None:
        """Release what the block has; see `end`."""
        if self:
            await self[-1].aend_block(error)
            self.clear()


def _user_of(frame: FrameType) -> FrameType:
    """Return the frame for which `frame` enters a block.

    It is that of the statement which uses a context manager. If the caller runs whatever it is
    given, as the loop of a worker does, that is no statement. Then it is a frame that ends at once.
    """
    above = frame.f_back
    while above is not None and (
        (frame.f_code.co_name in _ENTERS and _enters(above, frame.f_code.co_name))
        or frame.f_code.co_name in _COMPREHENSIONS
        # The generator of a context manager, which runs for that one's caller.
        or (frame.f_code.co_flags & _SUSPENDS and above.f_code.co_name in _ENTERS)
    ):
        frame, above = above, above.f_back
    return frame


def _enters(frame: FrameType, name: str) -> bool:
    """Whether the code of `frame` itself enters a block.

    It does so by a statement, or by calling a function of that name.
    """
    code, at = frame.f_code, frame.f_lasti
    operations = code.co_code
    return (
        name in code.co_names
        or not _WITH.isdisjoint((operations[at], operations[at - 2]))
        or _awaits_entering(operations, at)
    )


def _awaits_entering(operations: bytes, at: int) -> bool:
    """Whether the code awaits, at that place, what an `async with` statement begins with."""
    for place in range(at - 2, max(at - _LONGEST_AWAIT, -1), -2):
        if operations[place] == _AWAIT:
            return operations[place + 1] == 1  # as for nothing else
    return False


class BlockCall(partial[Any]):
    """A call that is to hold what its block, the first argument, has.

    It is written as ``BlockCall(function, block)(...)``.

    Only the expression that calls it refers to it. So it is gone as soon as the call has ended, at
    whatever line an interrupt has come. From then on nobody renews the holds of the block, although
    a traceback, or a variable, may still refer to them.
    """

    __slots__ = ()

    def __del__(self) -> None:
        block: Block = self.args[0]
        if block and not block[-1].kept:
            for hold in block:
                hold.leave_behind()


class Exit(BlockCall):
    """What a statement calls at the end of its block; each block has one of its own.

    Only the statement refers to it; see `BlockCall`.
    """

    __slots__ = ()


class AsyncExit(Exit):
    """What an `async with` statement calls at the end of its block; see `Exit`."""

    __slots__ = ()

    async def __call__(self, *error: Any) -> None:
        """End the block; see `_leave`. Until that is done, its coroutine refers to this exit."""
        block, function, manager = self.args
        if block:
            await block[-1].aend_block(error[-2])
            block.clear()
        else:
            await function(manager, *error[-3:])


class BlockExit:
    """The method `__exit__` or `__aexit__` of what blocks are made of.

    Looked up, it is an `Exit` for one block. Looked up on the class, as code that wraps it does, it
    is the plain function. An exit stack looks there, too, just before it enters the block; that
    gets an `Exit`.

    Args:
        function: What ends a block that has no `Exit`.
        kind: The class of its exits.
    """

    def __init__(self, function: Callable[..., Any], kind: type[Exit]) -> None:
        self.__wrapped__ = function
        self._kind = kind

    def __get__(self, manager: object, owner: type) -> Callable[..., Any]:
        looking = sys._getframe(1)
        if manager is None:
            if looking.f_code.co_name not in _STACKS:
                return self.__wrapped__
            manager = looking.f_locals.get("cm")
            if not isinstance(manager, owner):
                return self.__wrapped__
        block = Block()
        block.frame, block.has_exit = looking, True
        found = self._kind(_leave, block, self.__wrapped__, manager)
        _latest[get_ident()] = ref(found)
        return found


def block_exit(function: F) -> F:
    """Decorate a method `__exit__`; see `BlockExit`."""
    return cast("F", BlockExit(function, Exit))


def async_block_exit(function: F) -> F:
    """Decorate a method `__aexit__`; see `BlockExit`."""
    return cast("F", BlockExit(function, AsyncExit))


def block_entered(manager: object, *, is_async: bool = False) -> Block:
    """Return the block for which the caller, `__enter__` or `__aenter__` of `manager`, is called.

    Raises:
        SynchronousOnlyOperation: It is a blocking one, and an event loop runs in this thread.
    """
    if not is_async and _get_running_loop() is not None:
        refuse_in_loop("`with`", "Write `async with`")
    # Python has looked the `Exit` up just before, in this thread.
    latest = _latest.pop(get_ident(), None)
    found = None if latest is None else latest()
    if found is None or (arguments := found.args)[2] is not manager:
        block = Block()
        block.frame, block.has_exit = None, False
    else:
        block = arguments[0]
    frame, caller = block.frame, sys._getframe(2)
    if frame is not caller and (frame is None or frame not in stack(caller)):
        # No code, or code that has returned, has looked the exit up. So the call must tell.
        frame = sys._getframe(1)
    code = frame.f_code
    if code.co_name in _ENTERS or code.co_flags & _SUSPENDS:
        frame = _user_of(frame)
    block.frame, block.where = frame, ref(block)
    return block


def _leave(block: Block, function: Callable[..., None], manager: object, *error: Any) -> None:
    """End a block.

    The last three of `error` are what a statement gives; before them, an exit stack gives the
    manager.
    """
    if block:
        # Not by `Block.end`: before the release has begun, an interrupt leaves the hold to its
        # lease.
        block[-1].end_block(error[-2])
        block.clear()
    else:
        function(manager, *error[-3:])


_latest: Final[dict[int, ref[Exit]]] = {}
"""The exit that was made last in each thread, until its block is entered."""


class CalledBlocks:
    """The open blocks of a lock that threads and tasks share which have no `Exit`, the latest last.

    A call of `__exit__` ends the latest block of its thread or task. If that has none, it ends the
    only one that is open: a generator may move on to another thread.
    """

    __slots__ = ("_stacks",)

    def __init__(self) -> None:
        self._stacks: dict[str, list[Block]] = {}

    def push(self, block: Block) -> None:
        """Note that a block was entered here."""
        self._stacks.setdefault(session().name, []).append(block)

    def pop(self) -> Block:
        """Return the block that is left here.

        Raises RuntimeError if it might be any of several, or if none is open.
        """
        here = session().name
        if here not in self._stacks:
            if [len(stack) for stack in self._stacks.values()] != [1]:
                msg = (
                    "no block of this lock that this thread or task has entered is open: leave a "
                    "block where it was entered, or use `with lock.hold():`"
                )
                raise RuntimeError(msg)
            (here,) = self._stacks
        block = self._stacks[here].pop()
        if not self._stacks[here]:
            del self._stacks[here]
        return block


def refuse_in_loop(what: str, instead: str) -> None:
    """Raise SynchronousOnlyOperation if an event loop runs in this thread.

    There `what` would wait or hold. All tasks of the loop share the thread, so one forgotten
    ``async`` would let them in together. As Django does, it lets everything pass where the
    environment has DJANGO_ALLOW_ASYNC_UNSAFE.
    """
    if _get_running_loop() is not None and not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):
        msg = (
            f"{what} takes a lock in blocking code, but an event loop runs in this thread, and its "
            f"tasks would pass for one holder. {instead}, or call the blocking code by "
            "sync_to_async"
        )
        raise SynchronousOnlyOperation(msg)


def watch_loss(hold: Watched) -> bool:
    """Have the running task cancelled if the hold is lost.

    Return whether it is lost by now, and its async block is to end.
    """
    hold.cancelled = CancelledByLoss([part.lease for part in hold.parts])
    return hold.is_lost  # after that, so that no loss comes in between
