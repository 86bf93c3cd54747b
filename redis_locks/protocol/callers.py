"""Callers: each thread, task and ``sync_to_async`` call waits and holds as one.

This is what each has, and its tokens.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import weakref
from asyncio import _get_running_loop  # documented, and public in all but name
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextvars import ContextVar
from itertools import takewhile
from types import FrameType
from typing import Any, Final

from asgiref.sync import SyncToAsync

from redis_locks.values import identity
from redis_locks.values.claims import write_who

Place = tuple[object, str]
"""A server and the name of a lock."""


class Held(dict[Place, Any]):
    """The leases of one thread or task by place; of several at one place the latest.

    To take and release a lock costs the same however many there are, so that the ten thousandth
    costs as much as the first. Only the end of a lease that covered another one looks through what
    is open.
    """

    __slots__ = ("open", "party", "stack")

    def __init__(self, party: Hashable, stack: object = None) -> None:
        super().__init__()
        self.party = party
        """What is equal only for the thread or task whose they are."""
        self.stack = party if stack is None else stack
        """What stands for the open blocks of one thread, task or ``sync_to_async`` call: the same
        object for all of them.
        """
        self.open: dict[Any, None] = {}
        """All leases that somebody has yet to leave, the latest last: lost ones, and those found
        nowhere, too.
        """

    def uncover(self, place: Place) -> None:
        """Let the latest other lease of the lock at `place` be found there again, if still held."""
        server, name = place
        for lease in reversed(list(self.open)):  # a copy: another thread may leave one
            if lease.is_held and lease.has(server, name):
                self.setdefault(place, lease)  # the thread or task may have taken it anew
                return

    def has_any(self) -> bool:
        """Whether anything is held still.

        Forgets what has ended elsewhere: see `_Sessions.session_of`.
        """
        while True:
            try:
                # The latest first, which most likely is held.
                held = any(lease.is_held for lease in reversed(self.open))
                break
            except RuntimeError:
                continue  # another thread has just left one
        if not held:
            for lease in list(self.open):
                if not lease.is_open:
                    lease.forget(self)
        return held

    def copy_to(self, other: Held) -> None:
        """Let `other` have what is open still, too."""
        other.update((place, lease) for place, lease in self.copy().items() if lease.is_held)
        other.open.update((lease, None) for lease in list(self.open) if lease.is_open)


class Session:
    """A thread or a task: what waits and holds as one."""

    __slots__ = (
        *("__weakref__", "_around", "_task"),
        *("call", "counter", "held", "is_called", "name", "thread", "unit"),
    )

    def __init__(
        self,
        name: str,
        counter: itertools.count[int],
        call: object = None,
        task: asyncio.Task[object] | None = None,
        around: Iterable[Session | None] = (),
    ) -> None:
        self.name = name
        """What its tokens start with."""
        self.counter = counter
        """What they end with."""
        self.thread = threading.current_thread()
        """In which it was first seen; that of a task may be any."""
        self.unit = f"thread {self.thread.name}" if task is None else f"task {task.get_name()}"
        """What people read of it: its name when it was first seen."""
        party = threading.get_ident() if task is None else name
        self.held = Held(party, name if call is None else call)
        """What it holds now; see `Lease.begin`."""
        self.call = call
        """Which ``sync_to_async`` call it is of, if any."""
        self._task = None if task is None else weakref.ref(task)
        self.is_called = call is not None or (task is not None and _is_of_asgiref(task.get_coro()))
        """Whether another thread or task may wait for the call in which it runs; see `bridges`."""
        self._around = [weakref.ref(each) for each in around if each is not None]

    @property
    def task(self) -> asyncio.Task[object] | None:
        """Which task it is, if it is one and has not ended."""
        return None if self._task is None else self._task()

    @property
    def around(self) -> list[Session]:
        """The calls and tasks in whose context it began.

        One of them may wait for it, or all have gone on.
        """
        found = [each() for each in self._around]
        return [each for each in found if each is not None]


def _is_of_asgiref(coroutine: Any) -> bool:
    """Whether ``async_to_sync`` has started a coroutine."""
    code = getattr(coroutine, "cr_code", None)
    return code is not None and code.co_filename == SyncToAsync.__call__.__code__.co_filename


class _Sessions:
    """Those of one process."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.of_threads = threading.local()
        self.unconfirmed: deque[str] = deque(maxlen=100)
        self.of_tasks: weakref.WeakKeyDictionary[asyncio.Task[object], Session] = (
            weakref.WeakKeyDictionary()
        )
        self.threads: weakref.WeakValueDictionary[int, Session] = weakref.WeakValueDictionary()
        self.of_calls: ContextVar[Session | None] = ContextVar("redis_locks.session", default=None)
        self.of_context: ContextVar[Session | None] = ContextVar("redis_locks.task", default=None)

    def new_session(
        self,
        call: object = None,
        task: asyncio.Task[object] | None = None,
        around: Iterable[Session | None] = (),
    ) -> Session:
        return Session(
            f"{identity.process.prefix}{next(self.numbers):x}",
            identity.process.counter,
            *(call, task, around),
        )

    def _around(self) -> Iterable[Session | None]:
        """Return the calls and tasks in which this code runs, as the context says.

        The context may name an earlier call of the task. So what was around that call counts as
        well.
        """
        call = self.of_calls.get()
        return dict.fromkeys([call, *(call.around if call else ()), self.of_context.get()])

    def begin_task(self, task: asyncio.Task[object]) -> Session:
        """Return a session for a task that has none."""
        begun = self.of_tasks[task] = self.new_session(task=task, around=self._around())
        self.of_context.set(begun)
        return begun

    def session_of(self, call: object) -> Session:
        """Return the session of a ``sync_to_async`` call: it has what its task's earlier calls had.

        The guard of a COMMIT looks at that, and the search for deadlocks. No acquire is nested in
        it. It comes with the task's context, to which asgiref gives back what a call changes in it.
        A copy, for the context comes down to other tasks too: what either takes from now on is its
        own.
        """
        found = self.of_calls.get()
        if found is None or found.call is not call:
            before = found or getattr(self.of_threads, "session", None)
            found = self.new_session(call, around=self._around())
            if before:
                before.held.copy_to(found.held)
            self.of_calls.set(found)
        return found


calls: Final = SyncToAsync.threadlocal
"""Where asgiref notes as `task_context`, for the threads that it runs sync code in, a list made for
each call.
"""


RUNS_CALL: Final = SyncToAsync.thread_handler.__code__
"""The code whose frame runs a ``sync_to_async`` call."""


ours = _Sessions()
"""The sessions of this process. To be read as `callers.ours`: after a fork they are others."""


def _after_fork() -> None:
    global ours  # noqa: PLW0603 - a child has none of its parent's
    ours = _Sessions()


os.register_at_fork(after_in_child=_after_fork)


def session() -> Session:
    """Return the running task, or this thread if no event loop runs in it.

    The session is what waits and holds as one.
    """
    loop = _get_running_loop()
    if loop is not None:
        current = asyncio.current_task(loop)
        if current is None:
            return ours.new_session()  # what a loop calls by itself has to do with no other code
        return ours.of_tasks.get(current) or ours.begin_task(current)
    noted = calls.__dict__.get("task_context")  # most often there is none: no exception for that
    if noted is not None and noted is not ours.of_threads.__dict__.get("ended"):
        call = call_in(stack(sys._getframe()))
        if call is not None:
            # Tasks share that thread.
            return ours.session_of(call)
        ours.of_threads.ended = noted  # so that nobody looks for it once more
    try:
        return ours.of_threads.session  # type: ignore[no-any-return]
    except AttributeError:
        found = ours.of_threads.session = ours.new_session()
        ours.threads[threading.get_ident()] = found
        ours.of_calls.set(found)
        return found


def stack(top: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames that have led to a frame, from that on."""
    while top is not None:
        yield top
        top = top.f_back


def call_in(frames: Iterable[FrameType]) -> Any:
    """Return the ``sync_to_async`` call that runs in these frames, if any.

    When one has ended, asgiref leaves it noted for its thread, in which an earlier one may go on.
    """
    for frame in frames:
        if frame.f_code is RUNS_CALL:
            return frame.f_locals["task_context"]
    return None


def since_call(frames: Iterable[FrameType]) -> Iterator[FrameType]:
    """Yield the frames above those that run a ``sync_to_async`` call.

    What is beneath may be somebody else's.
    """
    return takewhile(lambda frame: frame.f_code is not RUNS_CALL, frames)


def holds_nothing(token: str) -> bool:
    """Return whether the caller, a thread or task that waits with `token`, holds no lock."""
    here = session()
    return not here.held.has_any() and token.startswith(f"{here.name}.")


def sessions_around() -> list[Session]:
    """Return the thread, call or task in whose context this code runs.

    Others may run in it, too.
    """
    return [each for each in (ours.of_calls.get(), ours.of_context.get()) if each is not None]


def open_around() -> list[Any]:
    """Return the leases of this thread; and of the task, if any, for which it runs sync code.

    A task that a holder has started works under its holds, too.
    """
    found = list(session().held.open)
    task = ours.of_context.get()
    return found if task is None else [*task.held.open, *found]


def new_session() -> Session:
    """Return a session of its own: no thread or task waits as it."""
    return ours.new_session()


def new_token(of: Session | None = None) -> str:
    """Return a new token: the name of its session, with 95 random bits, and a counter.

    `of`: its session; None: this thread.
    """
    owner = session() if of is None else of
    return f"{owner.name}.{next(owner.counter)}"


def note_unconfirmed(token: str) -> None:
    """Note that this token may hold until its lease ends, but will not be renewed."""
    ours.unconfirmed.append(token)


def unconfirmed() -> str:
    """Return the process's latest tokens that may hold a lock though no code uses them any more."""
    return " ".join(ours.unconfirmed)


def whoami(label: str | None) -> str:
    """Return the holder or waiter as text for people: host, pid, thread or task, what it runs."""
    return write_who(*identity.who_is(session().unit, label))
