"""Celery tasks that are queued once; what happens until a worker takes the message.

No worker is needed.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from queue import Queue
from threading import Event
from typing import Any

import pytest
import redis
from celery import Task, chain, shared_task
from celery.app.trace import build_tracer
from django.conf import settings
from django.db import transaction
from django.test import override_settings
from kombu.exceptions import EncodeError

from redis_locks import LockBackendError, inspection, unique_task
from redis_locks.integrations.celery import UniqueTask
from redis_locks.testing import assert_locked, assert_released, override_locks
from redis_locks.testing.server import EmbeddedServer
from tests import tenants
from tests.faults.proxy import Proxy
from tests.support.tasks import begin_and_die
from tests.support.world import PATIENCE, Threads, until
from tests.tasks import celery_app
from tests.tasks.celery_app import app

Make = Callable[..., Any]
Queued = Callable[[], int]
RunNext = Callable[..., None]


@pytest.fixture(autouse=True)
def broker(redis_server: Any) -> None:
    celery_app.configure(redis_server.url)


@pytest.fixture
def make(name: str) -> Make:
    """Makes a task that is queued once, with the queue of this test."""

    def decorated(unique: unique_task, **options: Any) -> Any:
        return functools.partial(
            shared_task, base=UniqueTask, unique=unique, name=f"tests.{name}", **options
        )()

    return decorated


@pytest.fixture
def work(make: Make, name: str) -> Any:
    """A task that does nothing, and is queued once in all."""

    def nothing() -> None: ...

    return make(unique_task(name))(nothing)


@pytest.fixture
def queued(client: redis.Redis, name: str) -> Callable[[], int]:
    """How many messages are in the queue of this test."""
    length: Any = client.llen
    return lambda: int(length(name))


@pytest.fixture
def run_next(client: redis.Redis, name: str) -> Callable[..., None]:
    """Takes the next message from a queue, this test's by default, and runs it as a worker does."""
    take: Any = client.lpop

    def run(queue: str = name) -> None:
        message = json.loads(take(queue))
        args, kwargs, canvas = json.loads(base64.b64decode(message["body"]))
        headers, properties = message["headers"], message["properties"]
        request = {**headers, **canvas, "called_directly": False}
        request |= {each: properties[each] for each in ("delivery_info", "reply_to")}
        task = app.tasks[headers["task"]]
        build_tracer(task.name, task, app=app)(headers["id"], args, kwargs, request)

    return run


@pytest.fixture
def eagerly() -> Iterator[None]:
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


def lease_left(name: str) -> float:
    info = inspection.lock(f"queued:{name}")
    assert info
    left = info.holders[0].lease_left
    assert left is not None
    return left


def test_a_message_that_is_queued_already_is_not_queued_again(
    name: str, make: Make, queued: Queued
) -> None:
    @make(unique_task("{key}:{number}"))
    def work(key: str, number: int) -> None: ...

    assert work.delay(name, 1)
    assert work.delay(name, number=1) is None
    assert work.apply_async((name,), {"number": 1}, countdown=60) is None
    assert work.s(name, 1).apply_async() is None
    assert 1 == queued()
    assert work.delay(name, 2)
    assert 2 == queued()
    assert_locked(f"queued:{name}:1")


def test_a_message_is_queued_once_from_the_thread_of_an_event_loop(
    name: str, make: Make, queued: Queued
) -> None:
    @make(unique_task("{key}"))
    def work(key: str) -> None: ...

    async def main() -> list[bool]:
        return [work.delay(name) is not None for _ in range(2)]

    assert [True, False] == asyncio.run(main())
    assert 1 == queued()


def test_a_duplicate_may_get_the_first_one_s_result(name: str, make: Make) -> None:
    @make(unique_task("{key}", on_duplicate="first"), bind=True)
    def work(self: Task, key: str) -> None: ...

    first = work.apply_async((name,), task_id=f"{name} of its own")
    assert first.id == work.delay(name).id == work.delay(name).id


def test_a_message_that_cannot_be_sent_makes_room(name: str, make: Make, queued: Queued) -> None:
    @make(unique_task(name))
    def work(key: object = None) -> None: ...

    with pytest.raises(EncodeError):
        work.delay(object())
    assert work.delay()
    assert 1 == queued()


def test_a_lost_message_makes_room_when_its_lease_ends(
    name: str, make: Make, client: redis.Redis
) -> None:
    @make(unique_task(name, lease=0.5))
    def work() -> None: ...

    assert work.delay()
    client.delete(name)
    until(lambda: work.delay() is not None)


def test_the_lease_counts_from_when_the_task_is_due(name: str, make: Make) -> None:
    @make(unique_task("{key}", lease=100))
    def work(key: str) -> None: ...

    work.apply_async((f"{name}:1",), countdown=1000)
    work.apply_async((f"{name}:2",), eta=datetime.now(UTC) + timedelta(seconds=1000))
    work.apply_async((f"{name}:3",))
    assert 1050 < lease_left(f"{name}:1") <= 1100
    assert 1050 < lease_left(f"{name}:2") <= 1100
    assert 50 < lease_left(f"{name}:3") <= 100


def test_what_others_wait_for_is_always_queued(work: Any, queued: Queued) -> None:
    work.delay()
    assert chain(work.si(), work.si()).apply_async()
    assert work.apply_async(link=work.si())
    assert 3 == queued()


@pytest.mark.parametrize(
    ("send", "count"),
    [
        (lambda first, work: chain(first.si(), work.si()).apply_async(), 1),
        (lambda first, work: first.apply_async(link=work.si()), 1),
        (lambda first, work: first.apply_async(link=[work.si(), work.si()]), 2),
        (lambda first, work: first.apply_async((True,), link_error=work.si()), 1),
    ],
    ids=["last of a chain", "link", "links", "link_error"],
)
def test_what_a_worker_queues_after_another_task_is_always_queued(
    name: str, work: Any, queued: Queued, run_next: RunNext, send: Callable[..., Any], count: int
) -> None:
    @shared_task(name=f"tests.{name}.first")
    def first(fails: bool = False) -> None:
        if fails:
            raise ValueError

    work.delay()
    send(first, work)
    run_next(f"{name}.first")
    assert 1 + count == queued()


def test_the_body_of_a_chord_is_always_queued(name: str, make: Make, queued: Queued) -> None:
    @make(unique_task(name))
    def work(results: list[int]) -> None: ...

    work.delay([])
    body = work.s()
    body.freeze()  # so does a chord
    assert body.delay([1, 2])  # so does its result backend
    assert 2 == queued()


def test_what_replaces_another_task_is_always_queued(
    name: str, work: Any, queued: Queued, run_next: RunNext
) -> None:
    @shared_task(name=f"tests.{name}.first", bind=True)
    def first(self: Task) -> None:
        self.replace(work.si())

    work.delay()
    first.delay()
    run_next(f"{name}.first")
    assert 2 == queued()


def test_what_another_task_sends_is_queued_once(
    name: str, work: Any, queued: Queued, run_next: RunNext
) -> None:
    sent = []

    @shared_task(name=f"tests.{name}.first")
    def first() -> None:
        sent.extend([work.delay(), work.apply_async(countdown=1), work.si().apply_async()])

    work.delay()
    first.delay()
    run_next(f"{name}.first")
    assert [None] * 3 == sent
    assert 1 == queued()


def test_an_operator_sees_the_message_and_may_let_it_go(
    name: str, work: Any, queued: Queued
) -> None:
    first = work.delay()
    info = inspection.lock(f"queued:{name}")
    assert info
    assert f"task tests.{name}, queued as {first.id}" == info.holders[0].label
    inspection.force_release(f"queued:{name}")
    assert work.delay()
    assert 2 == queued()


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_transaction_queues_nothing(name: str, work: Any, queued: Queued) -> None:
    with transaction.atomic():
        work.delay_on_commit()
        transaction.set_rollback(True)
    assert_released(f"queued:{name}")
    with transaction.atomic():
        work.delay_on_commit()
        work.delay_on_commit()
    assert 1 == queued()


def test_a_retry_is_queued_also_while_the_server_of_the_locks_is_away(
    name: str, make: Make, private_server: EmbeddedServer, queued: Queued, run_next: RunNext
) -> None:
    @make(unique_task(name, using=private_server.url), bind=True, max_retries=None)
    def work(self: Task) -> None:
        private_server.kill()
        raise self.retry(countdown=0)

    work.delay()
    run_next()
    assert 1 == queued()


def keeps_its_lock_until_it_has_run_twice(
    work: Any, name: str, queued: Queued, run_next: RunNext
) -> None:
    work.delay()
    run_next()
    assert work.delay() is None
    assert 1 == queued()
    run_next()
    assert_released(f"queued:{name}")


@pytest.mark.parametrize("until_", ["start", "end"])
def test_an_eager_task_runs_each_time(name: str, make: Make, eagerly: None, until_: Any) -> None:
    nested = []

    @make(unique_task(name, until=until_))
    def work(*, again: bool) -> str:
        if again:
            nested.append(work.delay(again=False))
        return "done"

    assert ["done", "done"] == [work.delay(again=True).get() for _ in range(2)]
    assert [until_ == "start"] * 2 == [each is not None for each in nested]
    assert_released(f"queued:{name}")


def test_a_direct_call_is_no_message(name: str, make: Make) -> None:
    @make(unique_task(name))
    def work() -> int:
        return 7

    work.delay()
    assert 7 == work() == work.apply().get()
    assert_locked(f"queued:{name}")


def test_a_task_that_calls_itself_keeps_its_lock_until_its_end(
    name: str, make: Make, run_next: RunNext
) -> None:
    seen = []

    @make(unique_task(name, until="end"))
    def work(*, depth: int = 2) -> None:
        if depth:
            work(depth=depth - 1)
        assert_locked(f"queued:{name}")
        seen.append(depth)

    work.delay()
    run_next()
    assert [0, 1, 2] == seen
    assert_released(f"queued:{name}")


def test_a_retry_with_another_name_frees_the_first(
    name: str, make: Make, run_next: RunNext
) -> None:
    @make(unique_task(f"{name}:{{page}}", until="end"), bind=True)
    def work(self: Task, page: int) -> None:
        if page == 1:
            raise self.retry(args=[2], countdown=0)

    work.delay(1)
    run_next()
    assert_released(f"queued:{name}:1")
    assert_locked(f"queued:{name}:2")
    run_next()
    assert_released(f"queued:{name}:2")


@pytest.mark.parametrize("throw", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_task_that_is_queued_again_keeps_its_lock(
    name: str, make: Make, queued: Queued, run_next: RunNext, throw: bool, fails: bool
) -> None:
    @make(unique_task(name, until="end"), bind=True)
    def work(self: Task) -> None:
        if not self.request.retries:
            self.retry(countdown=0, throw=throw)
        if fails:
            raise ValueError

    keeps_its_lock_until_it_has_run_twice(work, name, queued, run_next)


def test_a_task_that_replaces_itself_keeps_its_lock(
    name: str, make: Make, queued: Queued, run_next: RunNext
) -> None:
    @make(unique_task(name, until="end"), bind=True)
    def work(self: Task, *, again: bool = True) -> None:
        if again:
            self.replace(work.si(again=False))

    keeps_its_lock_until_it_has_run_twice(work, name, queued, run_next)


@pytest.fixture
def deliver_twice(client: redis.Redis, name: str) -> Callable[[], None]:
    """Puts a copy of the next message into the queue, as brokers do when workers are silent."""

    def copy() -> None:
        (message,) = client.lrange(name, 0, 0)  # type: ignore[misc]
        client.rpush(name, message)

    return copy


class Turns:
    """The runs of a task, each of which goes on when it is told to."""

    def __init__(self, run_next: RunNext) -> None:
        self._run_next = run_next
        self._began: Queue[Event] = Queue()
        self.threads = Threads()

    @property
    def work(self) -> Callable[[], None]:
        """What the task does."""

        def work() -> None:
            goes_on = Event()
            self._began.put(goes_on)
            assert goes_on.wait(PATIENCE)

        return work

    def begin(self) -> Callable[[], None]:
        """Let a worker take the next message; return what lets its run end."""
        done = self.threads.start(self._run_next)
        goes_on = self._began.get(timeout=PATIENCE)

        def end() -> None:
            goes_on.set()
            done.result(PATIENCE)

        return end


@pytest.fixture
def turns(run_next: RunNext) -> Turns:
    return Turns(run_next)


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_the_last_run_of_a_message_that_is_delivered_twice_frees_the_name(
    name: str,
    make: Make,
    turns: Turns,
    deliver_twice: Callable[[], None],
    queued: Queued,
    *,
    first_ends_first: bool,
) -> None:
    work = make(unique_task(name, until="end"))(turns.work)
    work.delay()
    deliver_twice()
    ends = [turns.begin(), turns.begin()]
    if not first_ends_first:
        ends.reverse()
    ends[0]()
    assert work.delay() is None
    ends[1]()
    assert_released(f"queued:{name}")
    assert work.delay()


def test_a_copy_that_comes_when_another_is_done_keeps_the_name_too(
    name: str, make: Make, turns: Turns, deliver_twice: Callable[[], None]
) -> None:
    work = make(unique_task(name, until="end"))(turns.work)
    work.delay()
    deliver_twice()
    deliver_twice()
    first, second = turns.begin(), turns.begin()
    second()
    third = turns.begin()
    first()
    assert work.delay() is None
    third()
    assert_released(f"queued:{name}")


def test_a_run_keeps_the_name_for_longer_than_a_lease(
    name: str, make: Make, turns: Turns, deliver_twice: Callable[[], None]
) -> None:
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "LEASE": 0.5}):
        work = make(unique_task(name, until="end", lease=0.5))(turns.work)
        work.delay()
        deliver_twice()
        first, second = turns.begin(), turns.begin()
        second()
        since = time.monotonic()
        until(lambda: time.monotonic() > since + 1.0)
        assert work.delay() is None
        first()
        assert_released(f"queued:{name}")


def test_after_a_worker_that_died_the_other_delivery_frees_the_name(
    name: str, make: Make, turns: Turns, deliver_twice: Callable[[], None]
) -> None:
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "LEASE": 0.5}):
        work = make(unique_task(name, until="end"))(turns.work)
        message = work.delay()
        deliver_twice()
        begin_and_die(work, f"queued:{name}", message.id)
        second = turns.begin()
        assert work.delay() is None
        second()
        until(lambda: work.delay() is not None)


@pytest.mark.parametrize("until_", ["start", "end"])
def test_a_cooldown_keeps_the_name_closed_for_a_while(
    name: str, make: Make, run_next: RunNext, queued: Queued, until_: Any
) -> None:
    def work() -> None: ...

    task = make(unique_task(name, until=until_, cooldown=1.0, on_duplicate="first"))(work)
    first = task.delay()
    run_next()
    assert first.id == task.delay().id
    assert 0 == queued()
    until(lambda: task.delay().id != first.id)
    assert 1 == queued()


def test_a_retry_is_queued_in_its_own_cooldown(
    name: str, make: Make, run_next: RunNext, queued: Queued
) -> None:
    @make(unique_task(name, cooldown=60), bind=True)
    def work(self: Task) -> None:
        if not self.request.retries:
            self.retry(countdown=0, throw=False)

    work.delay()
    run_next()
    assert 1 == queued()
    run_next()
    assert work.delay() is None


def test_an_eager_retry_releases_its_lock(name: str, make: Make, eagerly: None) -> None:
    @make(unique_task(name, until="end"), bind=True)
    def work(self: Task) -> int:
        if not self.request.retries:
            raise self.retry(countdown=0)
        assert_locked(f"queued:{name}")
        return int(self.request.retries)

    assert 1 == work.delay().get()
    assert_released(f"queued:{name}")


def test_without_the_option_it_is_an_ordinary_task(name: str, queued: Queued) -> None:
    @shared_task(base=UniqueTask, name=f"tests.{name}")
    def work() -> int:
        return 7

    assert all(work.delay() for _ in range(2))
    assert (2, 7) == (queued(), work.apply().get())


def test_a_server_that_is_down_queues_nothing(name: str, make: Make, queued: Queued) -> None:
    @make(unique_task(name, using="unix:///no-server"))
    def work() -> None: ...

    with pytest.raises(LockBackendError):
        work.delay()
    assert 0 == queued()


@pytest.mark.parametrize("until_", ["start", "end"])
def test_a_server_that_refuses_when_a_task_begins_blocks_the_next_one_until_its_end_at_most(
    name: str,
    make: Make,
    run_next: RunNext,
    private_server: EmbeddedServer,
    caplog: pytest.LogCaptureFixture,
    until_: Any,
) -> None:
    with private_server.client() as client:

        @make(unique_task(name, using=private_server.url, until=until_))
        def work() -> None:
            client.config_set("min-replicas-to-write", 0)

        work.delay()
        client.config_set("min-replicas-to-write", 1)
        run_next()
    assert f"The unique task 'queued:{name}'" in caplog.text
    assert work.delay()


def test_a_server_that_is_cut_off_while_it_is_queued_blocks_it_for_a_minute_at_most(
    redis_server: EmbeddedServer, name: str, make: Make, queued: Queued
) -> None:
    with Proxy(redis_server.url) as proxy:

        @make(unique_task(name, using=proxy.url))
        def work() -> None: ...

        proxy.lose(then_to="unix:///no-server")
        with pytest.raises(LockBackendError):
            work.delay()
    assert 0 == queued()
    assert 0 < lease_left(name) <= 60


def test_a_message_with_the_id_of_an_earlier_one_is_queued_although_a_connection_broke(
    redis_server: EmbeddedServer, name: str, make: Make, run_next: RunNext
) -> None:
    """Its token, too, is that of the earlier one, which may still have a question under way."""
    with Proxy(redis_server.url) as proxy:

        @make(unique_task(name, using=proxy.url))
        def work() -> None: ...

        proxy.lose(1)
        assert work.apply_async(task_id=name)
        assert 1 == proxy.lost
        run_next()
        assert_released(f"queued:{name}")
        assert work.apply_async(task_id=name)
        assert_locked(f"queued:{name}")


@override_locks("busy")
def test_tests_can_say_that_it_is_queued_already(name: str, make: Make) -> None:
    @make(unique_task(name, on_duplicate="first"))
    def work() -> None: ...

    assert work.delay() is None


def takes_an_order(order: int) -> None: ...


def test_a_template_must_fit_the_task(make: Make) -> None:
    with pytest.raises(ValueError, match=r"\{invoice\} is not a parameter"):
        make(unique_task("{invoice}"))(takes_an_order).delay(1)
    with pytest.raises(TypeError, match=r"base=UniqueTask, unique=unique_task\(\.\.\.\)"):
        unique_task("x")(takes_an_order)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("unique", "message"),
    [
        ("{order}", r"unique must be a rule such as unique_task\('invoice"),
        (unique_task, r"unique must be a rule such as unique_task\('invoice"),
        # A queue of Celery is in no database.
        (unique_task("{order}", database="default"), r"Queue the task with delay_on_commit\(\)"),
    ],
)
def test_what_is_no_rule_for_celery_is_refused(make: Make, unique: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(unique)(takes_an_order).delay(1)


def test_a_rule_needs_a_base_that_knows_it(name: str) -> None:
    # Before Python 3.12, what `__set_name__` raises comes wrapped.
    with pytest.raises((TypeError, RuntimeError)) as caught:
        app.task(shared=False, lazy=False, unique=unique_task("{order}"), name=name)(takes_an_order)
    error = caught.value.__cause__ if isinstance(caught.value, RuntimeError) else caught.value
    assert "add base=UniqueTask" in str(error)


def test_each_tenant_s_message_is_queued_once_and_frees_its_own_name_in_any_worker(
    name: str, make: Make, queued: Queued, run_next: RunNext
) -> None:
    @make(unique_task("{key}", until="end"))
    def work(key: str) -> None: ...

    with tenants.sharing():
        for schema in ("a", "b"):
            with tenants.of(schema):
                assert work.delay(name)
                assert work.delay(name) is None
                assert_locked(f"queued:{name}")
        assert 2 == queued()
        run_next()  # the latest, in no tenant: the message says which lock it has
        with tenants.of("a"):
            assert_locked(f"queued:{name}")
        with tenants.of("b"):
            assert_released(f"queued:{name}")
            assert work.delay(name)
