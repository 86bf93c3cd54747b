"""Experiments that run in the background one at a time, and their results, which Redis keeps for an hour."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import redis

from redis_locks import LockError, LockNotAvailable, inspection, redis_lock

from .processes import ActorFailed, actors_end

MEMORY_SECONDS = 3600
LOCK = "bank:experiment"

CLEAN_UP_SECONDS = 3.0
"""How long an experiment may take to clean up when the site ends."""
_NAME = "experiment"

R = TypeVar("R")
Found = dict[str, Any]
Show = Callable[[Found], None]


class Busy(Exception):
    """Another experiment is under way; the message says so."""


@contextmanager
def experiments_end() -> Iterator[None]:
    """End the experiments of this process with the block: kill their processes, and give them a moment to clean up."""
    try:
        with actors_end():
            yield
    finally:
        deadline = time.monotonic() + CLEAN_UP_SECONDS
        for thread in threading.enumerate():
            if thread.name == _NAME:
                thread.join(max(0.0, deadline - time.monotonic()))


def at_once(calls: Sequence[Callable[[], R]]) -> list[Future[R]]:
    """Make each call in a thread of its own, which does not hold up the end of the process."""
    return [_call(call) for call in calls]


def _call(call: Callable[[], R]) -> Future[R]:
    future: Future[R] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def start_experiment(conn: redis.Redis, name: str, work: Callable[[Show], Found]) -> uuid.UUID:
    """Start `work` and return the id of what it will find.

    Args:
        conn: Client of the server that keeps the result.
        name: What is kept as ``name`` with the result.
        work: Returns the result, in JSON's types. It is given what shows a part of it meanwhile.

    Raises:
        Busy: Another experiment is under way.
        LockBackendError: Redis could not be asked.
    """
    run_id = uuid.uuid4()
    started: Future[None] = Future()

    def show(found: Found, *, under_way: bool = True) -> None:
        run = {"name": name, "under_way": under_way, **found}
        conn.set(_key(run_id), json.dumps(run), ex=MEMORY_SECONDS)

    def run() -> None:
        try:
            with redis_lock(LOCK, wait=0, label=f"the experiment {name}"):
                show({})
                started.set_result(None)
                try:
                    found = work(show)
                except (ActorFailed, OSError, redis.RedisError, LockError) as error:
                    found = {"error": str(error)}
                show(found, under_way=False)
        except (LockError, redis.RedisError) as error:
            if not started.done():
                started.set_exception(error)

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    try:
        started.result()
    except LockNotAvailable as error:
        raise Busy("Another experiment is under way; try again in a moment.") from error
    return run_id


def find_experiment(conn: redis.Redis, run_id: uuid.UUID) -> Found | None:
    """Return a run's ``name``, whether it is ``under_way``, and what it found, or an ``error``; None if unknown.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    # Before the run, which ends before its lock is released.
    is_at_work = inspection.lock(LOCK) is not None
    kept = conn.get(_key(run_id))
    if kept is None:
        return None
    run: Found = json.loads(kept)
    if run["under_way"] and not is_at_work:
        return {**run, "under_way": False, "error": "It was stopped before its end."}
    return run


def _key(run_id: uuid.UUID) -> str:
    return f"experiment:{run_id}"
