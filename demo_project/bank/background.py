"""Experiments that run in the background one at a time; Redis keeps their results for an hour."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import redis

from redis_locks import LockError, LockNotAvailable, inspection, redis_lock

from .accounts import TransferError
from .processes import ActorFailed, Busy, actors_end

MEMORY_SECONDS = 3600
LOCK = "bank:experiment"

CLEAN_UP_SECONDS = 3.0
"""How long an experiment may take to clean up when the site ends."""
_NAME = "experiment"

R = TypeVar("R")
Found = dict[str, Any]
Show = Callable[[Found], None]


@contextmanager
def experiments_end() -> Iterator[None]:
    """End the experiments of this process with the block.

    This kills their processes, and gives them a moment to clean up.
    """
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


def keep(
    conn: redis.Redis, name: str, found: Found, run_id: uuid.UUID | None = None, under: str = ""
) -> uuid.UUID:
    """Keep what an experiment found for an hour, and return its id for `find_experiment`.

    Args:
        conn: Client of the server that keeps it.
        name: What is kept as ``name`` with it.
        found: In JSON's types.
        run_id: The id; None: a new one.
        under: The lock under which the experiment still runs; empty: it has ended.
    """
    run_id = run_id or uuid.uuid4()
    run = {"name": name, "under_way": under, **found}
    conn.set(_key(run_id), json.dumps(run), ex=MEMORY_SECONDS)
    return run_id


def start_experiment(
    conn: redis.Redis,
    name: str,
    work: Callable[[Show], Found],
    lock: str = LOCK,
    turn: AbstractContextManager[object] | None = None,
) -> uuid.UUID:
    """Start `work` and return the id of what it will find.

    Args:
        conn: Client of the server that keeps the result.
        name: What is kept as ``name`` with the result.
        work: Returns the result, in JSON's types. It is given what shows a part of it meanwhile.
        lock: The lock under which it runs.
        turn: What takes that lock; None: one experiment at a time.

    Raises:
        Busy: Another experiment is under way.
        LockBackendError: Redis could not be asked.
    """
    run_id = uuid.uuid4()
    started: Future[None] = Future()

    def show(found: Found, under: str = lock) -> None:
        keep(conn, name, found, run_id, under)

    def run() -> None:
        try:
            with turn or redis_lock(LOCK, wait=0, label=f"the experiment {name}"):
                show({})
                started.set_result(None)
                try:
                    found = work(show)
                except (ActorFailed, OSError, redis.RedisError, LockError, TransferError) as error:
                    found = {"error": str(error)}
                show(found, under="")
        except Exception as error:
            if not started.done():
                started.set_exception(error)
            elif not isinstance(error, LockError | redis.RedisError):  # the server may have ended
                raise

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    try:
        started.result()
    except LockNotAvailable as error:
        raise Busy("Another experiment is under way; try again in a moment.") from error
    return run_id


def find_experiment(conn: redis.Redis, run_id: uuid.UUID, *names: str) -> Found | None:
    """Return a run's ``name``, whether it is ``under_way``, and what it found, or an ``error``.

    None if it is not known, or has none of these names.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    run = _read(conn, run_id)
    if run and run["under_way"] and inspection.lock(run["under_way"]) is None:
        # It may have ended since it was read: the result is kept before the lock is released.
        run = _read(conn, run_id)
        if run and run["under_way"]:
            run |= {"under_way": "", "error": "It was stopped before its end."}
    return run if run and run["name"] in names else None


def _read(conn: redis.Redis, run_id: uuid.UUID) -> Found | None:
    kept = conn.get(_key(run_id))
    return json.loads(kept) if kept else None


def _key(run_id: uuid.UUID) -> str:
    return f"experiment:{run_id}"
