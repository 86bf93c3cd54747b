"""Interrupts in our own code: an exception at any call, line or return, as of a signal handler."""

from __future__ import annotations

import gc
import linecache
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, NamedTuple

from django.conf import settings
from django.test import override_settings

import redis_locks
from redis_locks.connections.backends import backend_for, known
from redis_locks.protocol.callers import open_around
from tests.support.waiting import PATIENCE

PACKAGE = str(Path(redis_locks.__file__).parent)

_WITH = re.compile(r"\s*with ((?:\w+\.)*\w+)[:,]")
_MUTEXES = (type(threading.Lock()), type(threading.RLock()), threading.Condition)


class TimeIsUp(OSError):
    """As a time limit of a project's own may be."""


class Stop(BaseException):
    """As a task queue's own may be."""


KINDS: tuple[type[BaseException], ...] = (KeyboardInterrupt, TimeoutError, TimeIsUp, Stop)
"""What a signal's handler may raise."""


class Interrupt(NamedTuple):
    """An interrupt that was raised."""

    where: str
    """The line and the function, for people."""
    error: BaseException | None
    """What the code that was run raised; None if `__del__` or a weak reference's callback swallowed
    it.
    """


def interrupt(
    run: Callable[[], object], at: int, kind: type[BaseException] = KeyboardInterrupt
) -> Interrupt | None:
    """Run it, and interrupt it at event number `at` of our code; None if there are fewer."""
    count, where = 0, ""
    raised = kind("it took too long")
    # No handler runs as a frame ends. Then that would not be in the traceback, by which such errors
    # are told from a socket's.
    passed_over = {"exception", "return"} if issubclass(kind, OSError) else {"exception"}
    unheard.clear()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count, where
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event not in passed_over and not _takes_a_mutex(frame, event):
            count += 1
            if count == at:
                # Python stops tracing by itself when this is raised.
                file, function = Path(frame.f_code.co_filename).name, frame.f_code.co_qualname
                where = f"{event} {at} at {file}:{frame.f_lineno}, {function}"
                raise raised
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except kind as error:
        if error is not raised:
            raise
        return Interrupt(where, error)
    finally:
        sys.settrace(before)
    if not where:
        return None
    assert id(raised) in unheard, f"swallowed: {where}"
    return Interrupt(where, None)


unheard: list[int] = []
"""The ids of the exceptions that the interpreter swallowed during the last run."""


def sweep(
    run: Callable[[], object],
    step: int,
    check: Callable[[str], None],
    *,
    keep: bool = True,
    kind: type[BaseException] = KeyboardInterrupt,
) -> None:
    """Interrupt it at every so-manieth event, and check what is true after each.

    `keep` keeps all exceptions till the end.

    With them the frames of each are kept, and so the connections that they had: it may have many.
    """
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "MAX_CONNECTIONS": 10_000}):
        _sweep(run, step, check, keep=keep, kind=kind)


def _sweep(
    run: Callable[[], object],
    step: int,
    check: Callable[[str], None],
    *,
    keep: bool,
    kind: type[BaseException],
) -> None:
    run()  # warm
    kept: list[BaseException | None] = []
    at = 1
    with _unheard():
        while (interrupted := _interrupted_at(run, at, kind)) is not None:
            # As an interpreter's prompt does, and who logs it later.
            kept.append(interrupted.error if keep else None)
            where = interrupted.where
            del interrupted
            if not keep:
                gc.collect(1)  # ExitStack makes a circle of an exception that comes at its end
            check(where)
            at += step
        assert len(kept) > 5
        kept.clear()
        gc.collect()


def _interrupted_at(
    run: Callable[[], object], at: int, kind: type[BaseException]
) -> Interrupt | None:
    """Return the interrupt at event number `at`; None if three runs have fewer.

    Runs vary a little.
    """
    for _ in range(3):
        if (interrupted := interrupt(run, at, kind)) is not None:
            return interrupted
    return None


@contextmanager
def _unheard() -> Iterator[None]:
    """Ignore interrupts in `__del__`, which are swallowed, and dropped holds and coroutines."""
    hook = sys.unraisablehook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.unraisablehook = lambda unheard_of: unheard.append(id(unheard_of.exc_value))
        try:
            yield
        finally:
            sys.unraisablehook = hook


def _takes_a_mutex(frame: FrameType, event: str) -> bool:
    """Whether this line takes a mutex of a thread.

    Its trace function is called again before the mutex is given back, where Python itself checks
    for no signal: an interrupt there would keep the mutex for good.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    if event != "line" or (found := _WITH.match(line)) is None:
        return False
    first, *rest = found[1].split(".")
    named = frame.f_locals.get(first, frame.f_globals.get(first))
    return isinstance(reduce(getattr, rest, named), _MUTEXES)


def renewed(name: str) -> int:
    """How many leases of a lock this process renews, or watches end."""
    renewers = [backend.renewer for backend in set(known.values())]
    found: list[Any] = [
        reference() for renewer in renewers for reference in _leases_of(renewer).values()
    ]
    return sum(
        1
        for lease in found
        if lease is not None and lease.state.value != "ended" and name in lease.names
    )


def _leases_of(renewer: Any) -> dict[str, Any]:
    nodes = getattr(renewer, "_renewers", None)  # of a cluster
    if nodes is not None:
        return {
            token: lease for node in nodes.values() for token, lease in _leases_of(node).items()
        }
    leases: dict[str, Any] = renewer._registry.leases
    return leases.copy()


def until_background_is_done() -> None:
    """Return when the background of the default server has done what it was given before."""
    done = threading.Event()

    async def work(_link: object) -> None:
        done.set()

    backend_for(None).background.add(work, monotonic() + PATIENCE)
    assert done.wait(PATIENCE)


def links_given_back_twice() -> int:
    """How many links of threads their pools would give to two threads at once."""
    pools: list[list[Any]] = [
        list(getattr(backend.driver, "_idle", ())) for backend in set(known.values())
    ]
    return sum(len(pool) - len({id(link) for link in pool}) for pool in pools)


def open_here(name: str) -> int:
    """How many leases of a lock this thread has yet to leave."""
    return sum(1 for lease in open_around() if name in lease.names)
