"""An interrupt at any step of a block: nobody renews the lock then, and it is released.

A few kinds of interrupt leave the lock to its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

import pytest
import redis
from django.db import connection, transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.test import RequestFactory
from django.views import View
from rest_framework.response import Response
from rest_framework.views import APIView

from redis_locks import Hold, Lock, LockNotHeld, RedisLockMixin, inspection, optimistic, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from redis_locks.optimistic import WatchingPipeline
from redis_locks.rows import lock_rows
from redis_locks.signals import lock_contended
from tests.ledger.models import Counter
from tests.support.interrupts import (
    KINDS,
    links_given_back_twice,
    open_here,
    renewed,
    sweep,
    until_background_is_done,
)
from tests.support.rows import row_of
from tests.support.world import PATIENCE, Observer, Threads, keys_of, until

LEASE = 30
MODEL = "ledger.Counter@default"
STEP = 59

Run = Callable[[], object]
Shape = Callable[[Lock], Run]

pytestmark = [pytest.mark.timeout(300), pytest.mark.django_db(transaction=True)]


reached: list[None] = []
"""Not empty if the last run came to the first line of its block."""


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


def view(lock: Lock) -> Run:
    class Locked(RedisLockMixin, View):
        lock_name, lock_lease = lock.name, LEASE

        def post(self, _request: object) -> HttpResponse:
            body()
            return HttpResponse()

    handle, request = Locked.as_view(), RequestFactory().post("/")
    return lambda: handle(request)


def view_of_an_api(lock: Lock) -> Run:
    class Locked(RedisLockAPIMixin, APIView):
        lock_name, lock_lease = lock.name, LEASE

        def post(self, _request: object) -> Response:
            body()
            return Response()

    handle, request = Locked.as_view(), RequestFactory().post("/")
    return lambda: handle(request)


def escalated(lock: Lock) -> Run:
    key = f"{lock.name}:watched"

    def run() -> None:
        def change(pipe: WatchingPipeline) -> None:
            if conflicts:
                conflicts.pop()
                optimistic.run(increment, key)
            increment(pipe)
            body()

        def increment(pipe: WatchingPipeline) -> None:
            pipe.multi()
            pipe.incr(key)

        conflicts = [None]
        optimistic.run(change, key, escalate_to=lock.name, escalate_after=1, attempts=3)

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


def contended_and_told(lock: Lock) -> Run:
    wait = contended(lock)

    def receiver(**_: object) -> None: ...

    def run() -> None:
        wait()  # briefly, so that the next question is a silent one
        lock_contended.connect(receiver)
        try:
            wait()
        finally:
            lock_contended.disconnect(receiver)

    return run


def rows_of(lock: Lock) -> QuerySet[Counter]:
    """The row whose lock it is."""
    return Counter.objects.filter(pk=lock.name.rpartition(":")[2])


def rows(lock: Lock) -> Run:
    kept: list[object] = []

    def run() -> None:
        with lock_rows(rows_of(lock), lease=LEASE) as found:
            kept.append(found)
            body()

    return run


def free_rows(lock: Lock) -> Run:
    def run() -> None:
        with lock_rows(rows_of(lock), lease=LEASE, skip_locked=True):
            body()

    return run


def nested_rows(lock: Lock) -> Run:
    def run() -> None:
        with lock_rows(rows_of(lock), lease=LEASE), lock_rows(rows_of(lock), lease=LEASE):
            body()

    return run


def rows_in_a_transaction(lock: Lock) -> Run:
    def run() -> None:
        with transaction.atomic(), lock_rows(rows_of(lock), lease=LEASE):
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


KEPT_BY_A_TRACEBACK = [in_an_exit_stack, acquired]
"""Shapes whose hold is a variable of some function: a traceback that is kept keeps it, too."""

LEAVES = {acquired: 60}
"""At how many places an interrupt may leave the lock to its lease: where no block has the hold.

If the interpreter takes a step more in one run of a sweep, each of them counts twice.
"""

SHAPES = [
    block,
    named,
    with_hold,
    one_hold_object,
    nested,
    nested_in_another_object,
    upgraded,
    committed,
    decorated,
    view,
    view_of_an_api,
    around_a_transaction,
    in_a_transaction,
    in_a_nested_transaction,
    *KEPT_BY_A_TRACEBACK,
]


OF_ROWS = [rows, free_rows, nested_rows, rows_in_a_transaction]


@pytest.fixture
def lock(name: str) -> Lock:
    return Lock(name, lease=LEASE, wait=PATIENCE)


@pytest.fixture
def row_lock(name: str) -> Lock:
    row = Counter.objects.create(name=name)
    return Lock(row_of(Counter, "default", row.pk).name, lease=LEASE, wait=PATIENCE)


def _check(lock: Lock, client: redis.Redis, where: str) -> None:
    observer = Observer(client)
    assert 0 == renewed(lock.name), where
    assert 0 == open_here(lock.name), where
    assert 0 == links_given_back_twice(), where
    assert not connection.in_atomic_block, where
    if not connection.get_autocommit():
        # As Django does at the end of a request: its own `atomic` was interrupted at its start.
        connection.rollback()
        connection.set_autocommit(True)
    if observer.left_of(lock.name):
        # As when the lease has ended, which nobody makes any longer.
        client.delete(*keys_of(lock.name), *keys_of(MODEL))
    with lock as hold:
        assert hold.token == observer.holder(lock.name), where
        assert Threads().acquire(lock, wait=0) is None, where
    assert set() == observer.left_of(lock.name), where


# CI interrupts at every step by one kind; the others take the same way, and sample it.
STEPS = pytest.mark.parametrize(
    ("kind", "step"),
    [
        (KINDS[0], STEP),
        pytest.param(KINDS[0], 1, marks=pytest.mark.ci),
        *(pytest.param(kind, 11, marks=pytest.mark.ci) for kind in KINDS[1:]),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
RAISES = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@STEPS
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_no_interrupt_leaves_a_lock_that_is_renewed_and_few_leave_one_at_all(
    shape: Shape, kind: type[BaseException], step: int, lock: Lock, client: redis.Redis
) -> None:
    interrupt_each(shape, step, lock, client, kind)


@STEPS
@pytest.mark.parametrize("shape", OF_ROWS, ids=lambda shape: shape.__name__)
def test_no_interrupt_leaves_rows_that_are_renewed_and_few_leave_them_locked_at_all(
    shape: Shape, kind: type[BaseException], step: int, row_lock: Lock, client: redis.Redis
) -> None:
    interrupt_each(shape, step, row_lock, client, kind)


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", [contended, contended_and_told], ids=lambda shape: shape.__name__)
@RAISES
def test_no_interrupt_of_an_acquire_that_waits_leaves_a_lock(
    kind: type[BaseException], shape: Shape, step: int, lock: Lock, client: redis.Redis
) -> None:
    interrupt_each(shape, step, lock, client, kind)


@pytest.mark.parametrize("step", [STEP, pytest.param(17, marks=pytest.mark.ci)])
@RAISES
def test_no_interrupt_of_an_optimistic_transaction_leaves_the_lock_that_it_escalated_to(
    kind: type[BaseException], step: int, lock: Lock, client: redis.Redis
) -> None:
    interrupt_each(escalated, step, lock, client, kind)


def test_a_block_whose_end_is_interrupted_leaves_its_lock_to_the_transaction(
    lock: Lock, client: redis.Redis
) -> None:
    renewals: list[int] = []

    def run() -> None:
        reached.clear()
        with transaction.atomic():
            try:
                with lock:
                    body()
            except KeyboardInterrupt:
                if reached:
                    renewals.append(renewed(lock.name))
                raise

    sweep(run, 3, lambda where: _check(lock, client, where))
    assert {1} == set(renewals)


def test_a_transaction_that_goes_on_after_an_interrupt_takes_the_lock_anew(
    lock: Lock, client: redis.Redis
) -> None:
    def run() -> None:
        with transaction.atomic():
            try:
                with lock:
                    body()
            finally:
                until_background_is_done()
                with lock as again:
                    assert again.token == Observer(client).holder(lock.name)

    sweep(run, 7, lambda where: _check(lock, client, where))


def test_a_hold_whose_block_was_interrupted_says_that_it_is_released(lock: Lock) -> None:
    hold: Hold | None = None

    def run() -> None:
        nonlocal hold
        with lock as hold:
            body()

    def check(where: str) -> None:
        if hold is not None:
            with pytest.raises(LockNotHeld, match="released"):
                hold.check()

    sweep(run, 7, check)


def test_a_nested_block_that_is_interrupted_leaves_the_outer_one_its_lock(
    lock: Lock, client: redis.Redis
) -> None:
    def run() -> None:
        with lock as outer:
            try:
                with lock:
                    body()
            finally:
                until_background_is_done()
                assert outer.token == Observer(client).holder(lock.name)

    sweep(run, 7, lambda where: _check(lock, client, where))


def interrupt_each(
    shape: Shape, step: int, lock: Lock, client: redis.Redis, kind: type[BaseException]
) -> None:
    keep, may_leave = shape not in KEPT_BY_A_TRACEBACK, LEAVES.get(shape, 0)
    left: set[str] = set()  # places: a wait takes more or fewer steps each time
    run = shape(lock)

    def begun() -> None:
        reached.clear()
        run()

    def check(where: str) -> None:
        until_background_is_done()
        if Observer(client).left_of(lock.name):
            left.add(where.partition(" at ")[2])
        _check(lock, client, where)

    sweep(begun, step, check, keep=keep, kind=kind)
    assert len(left) <= may_leave, sorted(left)
