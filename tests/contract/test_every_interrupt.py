"""An interrupt at any step of a block: nobody renews the lock then, and it can be taken again; few leave it to its lease."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

import pytest
import redis
from django.db import connection, transaction

from redis_locks import Lock, inspection, redis_lock
from tests.support.interrupts import Interrupt, interrupt, open_here, renewed
from tests.support.world import PATIENCE, Observer, Threads, keys_of, until

LEASE = 30
STEP = 59

Run = Callable[[], object]
Shape = Callable[[Lock], Run]

pytestmark = [pytest.mark.timeout(300), pytest.mark.django_db(transaction=True)]


reached: list[None] = []
"""Not empty if the last run came to the first line of its block."""

LATE = 6
"""At how many steps an interrupt may leave the lock once its block has begun: the first ones of the block's end."""


def body() -> None:
    reached.append(None)


def block(lock: Lock) -> Run:
    def run() -> None:
        with lock:
            body()

    return run


def named(lock: Lock) -> Run:
    kept: list[object] = []

    def run() -> None:
        with lock as hold:
            kept.append(hold)
            body()

    return run


def with_hold(lock: Lock) -> Run:
    def run() -> None:
        with lock.hold():
            body()

    return run


def one_hold_object(lock: Lock) -> Run:
    held = lock.hold()

    def run() -> None:
        with held:
            body()

    return run


def nested(lock: Lock) -> Run:
    def run() -> None:
        with lock, lock:
            body()

    return run


def nested_in_another_object(lock: Lock) -> Run:
    other = Lock(lock.name, lease=LEASE)

    def run() -> None:
        with lock.hold(), other:
            body()

    return run


def upgraded(lock: Lock) -> Run:
    shared = Lock(lock.name, mode="shared", lease=LEASE)

    def run() -> None:
        with shared, lock:
            body()

    return run


def committed(lock: Lock) -> Run:
    reading = Lock(lock.name, lease=LEASE, read=[("GET", "nothing")])

    def run() -> None:
        with reading as hold:
            body()
            hold.commit([("SET", f"{lock.name}:value", "1")])

    return run


def in_an_exit_stack(lock: Lock) -> Run:
    def run() -> None:
        with ExitStack() as stack:
            stack.enter_context(lock)
            body()

    return run


def around_a_transaction(lock: Lock) -> Run:
    def run() -> None:
        with lock, transaction.atomic():
            body()

    return run


def in_a_transaction(lock: Lock) -> Run:
    def run() -> None:
        with transaction.atomic(), lock:
            body()

    return run


def in_a_nested_transaction(lock: Lock) -> Run:
    def run() -> None:
        with transaction.atomic(), lock, transaction.atomic(), lock:
            body()

    return run


def decorated(lock: Lock) -> Run:
    @redis_lock(lock.name, lease=LEASE)
    def run() -> None:
        body()

    return run


def acquired(lock: Lock) -> Run:
    def run() -> None:
        hold = lock.acquire()
        assert hold
        hold.release()  # no block: nothing ends it but this call

    return run


def contended(lock: Lock) -> Run:
    def run() -> None:
        with held_until_somebody_waits(lock.name), lock:
            body()

    return run


@contextmanager
def held_until_somebody_waits(name: str) -> Iterator[None]:
    """Another thread holds the lock until this one waits for it, or is interrupted before."""
    held, over = Event(), Event()

    def waited_for() -> bool:
        found = inspection.lock(name)
        return found is not None and found.waiting > 0

    def hold() -> None:
        with Lock(name, lease=LEASE, wait=0):
            held.set()
            until(lambda: over.is_set() or waited_for())

    thread = Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    try:
        yield
    finally:
        over.set()
        thread.join()


KEPT_BY_A_TRACEBACK = [in_an_exit_stack, decorated, acquired]
"""Shapes whose hold is a variable of some function: a traceback that is kept keeps it, too."""

SHAPES = [
    block,
    named,
    with_hold,
    one_hold_object,
    nested,
    nested_in_another_object,
    upgraded,
    committed,
    around_a_transaction,
    in_a_transaction,
    in_a_nested_transaction,
    *KEPT_BY_A_TRACEBACK,
]


@pytest.fixture
def lock(name: str) -> Lock:
    return Lock(name, lease=LEASE, wait=PATIENCE)


def sweep(run: Run, step: int, check: Callable[[str], None], *, keep: bool = True) -> None:
    """Interrupt it at every so-manieth event, and check what is true after each; `keep` all exceptions till the end."""
    run()  # warm
    kept: list[BaseException | None] = []
    at = 1
    with unheard():
        while (interrupted := interrupted_at(run, at)) is not None:
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


def interrupted_at(run: Run, at: int) -> Interrupt | None:
    """Return the interrupt at the so-manieth event; None if three runs in turn, which vary a little, have fewer."""
    for _ in range(3):
        reached.clear()
        if (interrupted := interrupt(run, at)) is not None:
            return interrupted
    return None


@contextmanager
def unheard() -> Iterator[None]:
    """Nobody hears of interrupts in `__del__`, which are swallowed, nor of holds and coroutines that are dropped."""
    hook = sys.unraisablehook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.unraisablehook = lambda _: None
        try:
            yield
        finally:
            sys.unraisablehook = hook


def _check(lock: Lock, client: redis.Redis, where: str) -> None:
    observer = Observer(client)
    assert 0 == renewed(lock.name), where
    assert 0 == open_here(lock.name), where
    assert not connection.in_atomic_block, where
    if not connection.get_autocommit():
        # As Django does at the end of a request: its own `atomic` was interrupted at its start.
        connection.rollback()
        connection.set_autocommit(True)
    if observer.left_of(lock.name):
        # As when the lease has ended, which nobody makes any longer.
        client.delete(*keys_of(lock.name))
    with lock as hold:
        assert hold.token == observer.holder(lock.name), where
        assert Threads().acquire(lock, wait=0) is None, where
    assert set() == observer.left_of(lock.name), where


STEPS = pytest.mark.parametrize("step", [STEP, pytest.param(1, marks=pytest.mark.ci)])


@STEPS
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_no_interrupt_leaves_a_lock_that_is_renewed_and_few_leave_one_at_all(
    shape: Shape, step: int, lock: Lock, client: redis.Redis
) -> None:
    interrupt_each(shape, step, lock, client)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_no_interrupt_of_an_acquire_that_waits_leaves_a_lock_that_is_renewed(
    step: int, lock: Lock, client: redis.Redis
) -> None:
    interrupt_each(contended, step, lock, client)


def interrupt_each(shape: Shape, step: int, lock: Lock, client: redis.Redis) -> None:
    keep = shape not in KEPT_BY_A_TRACEBACK
    late: list[str] = []

    def check(where: str) -> None:
        if reached and Observer(client).left_of(lock.name):
            late.append(where)
        _check(lock, client, where)

    sweep(shape(lock), step, check, keep=keep)
    assert len(late) <= LATE, late
