"""The identity of a holder: tokens that prove a hold, and details that people read."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import secrets
import socket
import string
import sys
import threading
import weakref
from asyncio import _get_running_loop  # documented, and public in all but name
from collections import deque
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from itertools import takewhile
from pathlib import PurePath
from types import FrameType
from typing import Any, Final

from asgiref.sync import SyncToAsync

from redis_locks.values.claims import Claim, Who, write_who
from redis_locks.values.local_locks import Held
from redis_locks.values.text import encodable

LISTENER = 11
"""Letters and digits that name a connection: 65 random bits."""

_ALPHABET = string.ascii_letters + string.digits


def random_text(length: int) -> str:
    """Return random letters and digits, almost 6 bits each: hexadecimal ones would be longer.

    They are in keys, values and messages of every lock, and in commands that people type.
    """
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


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
        """The calls and tasks in whose context it began: one of them may wait for it, or all have gone on."""
        found = [each() for each in self._around]
        return [each for each in found if each is not None]


def _is_of_asgiref(coroutine: Any) -> bool:
    """Whether ``async_to_sync`` has started a coroutine."""
    code = getattr(coroutine, "cr_code", None)
    return code is not None and code.co_filename == SyncToAsync.__call__.__code__.co_filename


class _Process:
    """What changes with a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        """As `os.getpid`, without a system call."""
        self.prefix = random_text(16)
        self.counter = itertools.count(1)
        self.sessions = itertools.count(1)
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
        return Session(f"{self.prefix}{next(self.sessions):x}", self.counter, call, task, around)

    def _around(self) -> Iterable[Session | None]:
        """Return the calls and tasks in which this code runs, as the context says.

        The context may name an earlier call of the task. So what was around that call counts as well.
        """
        call = self.of_calls.get()
        return dict.fromkeys([call, *(call.around if call else ()), self.of_context.get()])

    def begin_task(self, task: asyncio.Task[object]) -> Session:
        """Return a session for a task that has none."""
        its = self.of_tasks[task] = self.new_session(task=task, around=self._around())
        self.of_context.set(its)
        return its

    def session_of(self, call: object) -> Session:
        """Return the session of a ``sync_to_async`` call: it has what earlier calls of its task had.

        The guard of a COMMIT looks at that, and the search for deadlocks. No acquire is nested in it.
        It comes with the task's context, to which asgiref gives back what a call changes in it.
        A copy, for the context comes down to other tasks too: what either takes from now on is
        its own.
        """
        its = self.of_calls.get()
        if its is None or its.call is not call:
            before = its or getattr(self.of_threads, "session", None)
            its = self.new_session(call, around=self._around())
            if before:
                before.held.copy_to(its.held)
            self.of_calls.set(its)
        return its


calls: Final = SyncToAsync.threadlocal
"""Where asgiref notes as `task_context`, for the threads that it runs sync code in, a list made for each call."""


_RUNS_CALL: Final = SyncToAsync.thread_handler.__code__


process = _Process()
"""This one. To be read as `identity.process`: after a fork it is another."""


def _after_fork() -> None:
    global process  # noqa: PLW0603 - a child must not repeat its parent's tokens
    process = _Process()


os.register_at_fork(after_in_child=_after_fork)


def process_name() -> str:
    """Return what the tokens of this process start with."""
    return process.prefix


def process_of(token: str) -> str:
    """Return the name of the process that a token belongs to."""
    return token[: len(process.prefix)]


def session() -> Session:
    """Return the running task, or this thread if no event loop runs in it, as what waits and holds as one."""
    loop = _get_running_loop()
    if loop is not None:
        current = asyncio.current_task(loop)
        if current is None:
            return process.new_session()  # what a loop calls by itself has to do with no other code
        return process.of_tasks.get(current) or process.begin_task(current)
    noted = calls.__dict__.get("task_context")  # most often there is none: no exception for that
    if noted is not None and noted is not process.of_threads.__dict__.get("ended"):
        call = call_in(stack(sys._getframe()))
        if call is not None:
            # Tasks share that thread.
            return process.session_of(call)
        process.of_threads.ended = noted  # so that nobody looks for it once more
    try:
        return process.of_threads.session  # type: ignore[no-any-return]
    except AttributeError:
        its = process.of_threads.session = process.new_session()
        process.threads[threading.get_ident()] = its
        process.of_calls.set(its)
        return its


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
        if frame.f_code is _RUNS_CALL:
            return frame.f_locals["task_context"]
    return None


def since_call(frames: Iterable[FrameType]) -> Iterator[FrameType]:
    """Yield the frames above those that run a ``sync_to_async`` call. What is beneath may be somebody else's."""
    return takewhile(lambda frame: frame.f_code is not _RUNS_CALL, frames)


def holds_nothing(token: str) -> bool:
    """Return whether the caller, a thread or task that waits with `token`, holds no lock."""
    its = session()
    return not its.held.has_any() and token.startswith(f"{its.name}.")


def sessions_around() -> list[Session]:
    """Return the thread, call or task in whose context this code runs, though others may run in it, too."""
    return [each for each in (process.of_calls.get(), process.of_context.get()) if each is not None]


def open_around() -> list[Any]:
    """Return the leases that this thread has; and those of the task, if any, for which it runs sync code.

    A task that a holder has started works under its holds, too.
    """
    found = list(session().held.open)
    task = process.of_context.get()
    return found if task is None else [*task.held.open, *found]


def new_session() -> Session:
    """Return a session of its own: no thread or task waits as it."""
    return process.new_session()


def new_token(of: Session | None = None) -> str:
    """Return a new token: the name of its session (None: this thread), with 95 random bits, and a counter."""
    its = session() if of is None else of
    return f"{its.name}.{next(its.counter)}"


def new_operation() -> str:
    """Return text that no other call in any process gets: 95 random bits of this process, and a counter."""
    return f"{process.prefix}.{next(process.counter)}"


def note_unconfirmed(token: str) -> None:
    """Note that this token may hold until its lease ends, but will not be renewed."""
    process.unconfirmed.append(token)


def unconfirmed() -> str:
    """Return the latest tokens of this process that may hold a lock although no code uses them any more."""
    return " ".join(process.unconfirmed)


def who(label: str | None, unit: str | None = None) -> Who:
    """Return who asks, for people: host, pid, thread or task (None: this one), and what it runs."""
    return Who(socket.gethostname(), process.pid, unit or session().unit, label or _command())


def whoami(label: str | None) -> str:
    """Return the holder or waiter as text for people: host, pid, thread or task, and what it runs."""
    return write_who(*who(label))


@lru_cache(maxsize=1024)
def written(pid: int, unit: str, label: str | None, channel: str | None) -> str:
    """Return text as `whoami` does. `channel`, at its end, is for scripts: its process listens to it all its life."""
    who = (socket.gethostname(), pid, unit, label or _command())
    return write_who(*who) + (f"\t{channel}" if channel else "")


@lru_cache(maxsize=1)
def _command() -> str:
    """Return what this process runs: `manage.py runserver`, say, but no further arguments."""
    script = PurePath(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    verb = (
        sys.argv[1]
        if script in {"manage.py", "django-admin", "celery"} and len(sys.argv) > 1
        else ""
    )
    return f"{script} {verb}".strip()


def describe_holder(claim: str) -> str | None:
    """Return the holder in a claim as one line for people, or None if there is none."""
    parsed = Claim.parse(claim)
    return str(parsed.who) if parsed and parsed.who else None


def caller() -> str:
    """Return the line of the user's code that led here."""
    frame, _ = user_frame()
    return encodable(f"{frame.f_code.co_filename}:{frame.f_lineno}")


def user_function() -> str:
    """Return the module and qualified name of the user's function that led here."""
    frame, _ = user_frame()
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"


def user_frame() -> tuple[FrameType, int]:
    """Return the innermost frame of the user's code, and how many frames the caller is above it.

    If there is none, as in a thread of our own, it is the outermost frame.
    """
    frame, depth = inspect.currentframe(), -1
    assert frame is not None  # noqa: S101 - CPython has frames
    while frame.f_back is not None and _is_machinery(frame.f_globals.get("__name__", "")):
        frame, depth = frame.f_back, depth + 1
    return frame, depth


_MACHINERY = ("redis_locks", "django.dispatch", "contextlib", "asyncio", "asgiref")


@lru_cache(maxsize=4096)
def _is_machinery(module: str) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in _MACHINERY)
