"""Tasks of django.tasks that are queued once, sync and async."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django
import pytest
import redis
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings
from django.utils import timezone
from django.utils.connection import ConnectionDoesNotExist

from redis_locks import inspection, redis_lock, unique_task
from redis_locks.testing import assert_locked, assert_released
from redis_locks.testing.server import EmbeddedServer
from tests import tenants
from tests.faults.proxy import Proxy
from tests.support.interrupts import sweep
from tests.support.world import until

PACKAGE = "django.tasks" if django.VERSION >= (6,) else "django_tasks"  # the backport
tasks: Any = pytest.importorskip(PACKAGE, reason="django.tasks came with Django 6.0")

task, task_backends = tasks.task, tasks.task_backends
TaskContext: Any = tasks.TaskContext
BACKENDS = f"{PACKAGE}.backends"


@pytest.fixture
def queue() -> Any:
    """The messages, in order: nobody runs them."""
    with override_settings(TASKS={"default": {"BACKEND": f"{BACKENDS}.dummy.DummyBackend"}}):
        yield task_backends["default"].results


@pytest.fixture
def immediate() -> Any:
    with override_settings(
        TASKS={"default": {"BACKEND": f"{BACKENDS}.immediate.ImmediateBackend"}}
    ):
        yield


@unique_task("{key}")
@task
def until_start(key: str, again: bool = False) -> bool:
    return again and enqueue(until_start, key) is not None


@unique_task("{key}", until="end")
@task
@redis_lock("{key}")
def until_end(key: str, again: bool = False) -> bool:
    assert_locked(f"queued:{key}")
    return again and enqueue(until_end, key) is not None


@unique_task("{key}")
@task(takes_context=True)
async def async_until_start(context: TaskContext, key: str, again: bool = False) -> bool:
    return again and await async_until_start.aenqueue(key) is not None


@unique_task(lambda key, **_: key, until="end")
@task(takes_context=True)
async def async_until_end(context: TaskContext, key: str, again: bool = False) -> bool:
    return again and await async_until_end.aenqueue(key) is not None


@unique_task(lambda pair: f"{pair}")
@task
def with_a_pair(pair: Any) -> None: ...


ALL: dict[str, Any] = {
    "start": until_start,
    "end": until_end,
    "async start": async_until_start,
    "async end": async_until_end,
}


def enqueue(queued: Any, *args: Any, **kwargs: Any) -> Any:
    if "async" in queued.name:
        return asyncio.run(queued.aenqueue(*args, **kwargs))
    return queued.enqueue(*args, **kwargs)


def run(result: Any) -> Any:
    """As a worker does."""
    context = [TaskContext(task_result=result)] if result.task.takes_context else []
    return result.task.call(*context, *result.args, **result.kwargs)


def test_a_message_is_queued_once_from_the_thread_of_an_event_loop(queue: Any, name: str) -> None:
    async def main() -> list[bool]:
        return [until_start.enqueue(name) is not None for _ in range(2)]

    assert [True, False] == asyncio.run(main())
    assert 1 == len(queue)


@pytest.mark.parametrize("which", ALL)
def test_it_is_not_queued_again_until_a_worker_takes_it(name: str, queue: Any, which: str) -> None:
    queued = ALL[which]
    first = enqueue(queued, name)
    assert enqueue(queued, key=name) is None
    assert enqueue(queued, f"{name}:other")
    assert [name] == [result.args[0] for result in queue if result.args == [name]]
    run(first)
    assert_released(f"queued:{name}")
    assert enqueue(queued, name)


@pytest.mark.parametrize("which", ALL)
def test_while_it_runs_it_may_be_queued_again_or_not(
    name: str, immediate: None, which: str
) -> None:
    result = enqueue(ALL[which], name, again=True)
    assert ([], "start" in which) == (result.errors, result.return_value)
    assert_released(f"queued:{name}")


copies: list[Any] = []
"""What a worker is given a second time, in the middle of the first run."""


@unique_task("{key}", until="end")
@task
def delivered_twice(key: str) -> list[bool]:
    earlier = run(copies.pop()) if copies else []
    return [*earlier, delivered_twice.enqueue(key) is None]


def test_the_last_run_of_a_message_that_is_delivered_twice_frees_the_name(
    name: str, queue: Any
) -> None:
    first = delivered_twice.enqueue(name)
    copies.append(first)
    assert [True, True] == run(first)
    assert_released(f"queued:{name}")


@unique_task("{key}", cooldown=60)
@task
def closed_from_its_start(key: str) -> None: ...


@unique_task("{key}", until="end", cooldown=60)
@task
def closed_from_its_end(key: str) -> None: ...


@pytest.mark.parametrize("queued", [closed_from_its_start, closed_from_its_end])
def test_a_cooldown_keeps_the_name_closed(name: str, queue: Any, queued: Any) -> None:
    run(queued.enqueue(name))
    assert queued.enqueue(name) is None
    assert queued.enqueue(f"{name}:other")


def test_the_lease_counts_from_when_it_is_due(name: str, queue: Any) -> None:
    later = until_start.using(run_after=timezone.now() + timedelta(hours=10))
    assert later.enqueue(name)
    info = inspection.lock(f"queued:{name}")
    assert info
    left = info.holders[0].lease_left
    assert 10.9 < left / 3600 <= 11
    assert "task until_start, queued" == info.holders[0].label


def test_it_is_named_by_its_arguments_as_the_worker_gets_them(name: str, queue: Any) -> None:
    run(with_a_pair.enqueue((name, 1)))
    assert_released(f"queued:['{name}', 1]")
    assert with_a_pair.enqueue([name, 1])


def test_what_cannot_be_queued_makes_room(
    name: str, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ConnectionError

    for queued in (until_start, async_until_start):
        with monkeypatch.context() as patch:
            patch.setattr(type(task_backends["default"]), "enqueue", broken)
            with pytest.raises(ConnectionError):
                enqueue(queued, name)
        assert_released(f"queued:{name}")


def test_it_is_still_a_task_of_its_module(queue: Any) -> None:
    assert f"{__name__}.until_start" == until_start.module_path
    assert isinstance(until_start, type(task(with_a_pair.func)))


@pytest.mark.skipif(
    not hasattr(type(until_start), "_reconstruct"), reason="Django 6.0 cannot pickle tasks"
)
def test_it_pickles(name: str, queue: Any) -> None:
    copy = pickle.loads(pickle.dumps(until_start.using(priority=5)))  # noqa: S301
    assert (5, until_start.func) == (copy.priority, copy.func)
    assert copy.enqueue(name)
    assert until_start.enqueue(name) is None


def test_the_first_one_s_result_is_not_known() -> None:
    with pytest.raises(TypeError, match="on_duplicate must be 'skip' for django"):
        unique_task("x", on_duplicate="first")(with_a_pair)


@unique_task("{key}", database="default")
@task
def in_the_database(key: str) -> None: ...


async def _aenqueue(key: str) -> object:
    return await in_the_database.aenqueue(key)


QUEUEING = {"enqueue": in_the_database.enqueue, "aenqueue": async_to_sync(_aenqueue)}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("send", QUEUEING.values(), ids=QUEUEING)
def test_a_message_that_a_rollback_takes_back_makes_room(name: str, queue: Any, send: Any) -> None:
    with transaction.atomic():
        assert send(name)
        transaction.set_rollback(True)
    assert_released(f"queued:{name}")
    with transaction.atomic():
        assert send(name)
        with transaction.atomic():
            assert send(f"{name}:inner")
            transaction.set_rollback(True)
        assert_released(f"queued:{name}:inner")
    assert_locked(f"queued:{name}")
    with transaction.atomic():
        transaction.set_rollback(True)
    assert_locked(f"queued:{name}")


@pytest.mark.django_db(transaction=True)
def test_a_rollback_without_the_server_says_what_is_blocked(
    name: str, queue: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedServer(use_environment=False) as server:
        rule = unique_task("{key}", database="default", using=server.url)
        elsewhere = rule(task(in_the_database.func))
        with transaction.atomic():
            assert elsewhere.enqueue(name)
            server.stop()
            transaction.set_rollback(True)
    assert f"'queued:{name}' is blocked until its lease ends" in caplog.text


@pytest.mark.django_db
def test_in_a_test_case_a_block_that_is_rolled_back_makes_room(name: str, queue: Any) -> None:
    with transaction.atomic():
        assert in_the_database.enqueue(name)
        transaction.set_rollback(True)
    assert_released(f"queued:{name}")


@pytest.mark.django_db(transaction=True)
def test_a_rollback_frees_no_name_of_a_queue_elsewhere(name: str, queue: Any) -> None:
    with transaction.atomic():
        assert until_start.enqueue(name)
        transaction.set_rollback(True)
    assert until_start.enqueue(name) is None


def test_a_database_that_there_is_not_queues_nothing(name: str, queue: Any) -> None:
    elsewhere = unique_task("{key}", database="nowhere")(task(in_the_database.func))
    with pytest.raises(ConnectionDoesNotExist, match="nowhere"):
        elsewhere.enqueue(name)
    assert [] == queue
    assert_released(f"queued:{name}")


refusing: list[redis.Redis] = []
"""The server that refuses to write until a task tells it not to."""


def _allow(key: str) -> None:
    refusing.pop().config_set("min-replicas-to-write", 0)


@unique_task("{key}")
@task
def allowing_until_start(key: str) -> None:
    _allow(key)


@unique_task("{key}", until="end")
@task
async def allowing_until_end(key: str) -> None:
    _allow(key)


@pytest.mark.parametrize("allowing", [allowing_until_start, allowing_until_end])
def test_a_server_that_refuses_when_a_task_begins_blocks_the_next_one_until_its_end_at_most(
    name: str, queue: Any, client: redis.Redis, caplog: pytest.LogCaptureFixture, allowing: Any
) -> None:
    result = allowing.enqueue(name)
    refusing.append(client)
    client.config_set("min-replicas-to-write", 1)
    run(result)
    assert f"'queued:{name}'" in caplog.text
    assert_released(f"queued:{name}")


passing: list[Callable[[], object]] = []
"""What happens while a task runs."""


@task
def while_something_passes(key: str) -> None:
    passing.pop()()


@pytest.mark.parametrize("until_", ["start", "end"])
@pytest.mark.parametrize("ended", [False, True])
def test_a_server_that_is_away_when_a_task_begins_keeps_the_next_message_s_lock(
    name: str, queue: Any, redis_server: EmbeddedServer, until_: Any, ended: bool
) -> None:
    lock = f"queued:{name}"
    with Proxy(redis_server.url) as proxy:
        rule = unique_task("{key}", until=until_, using=proxy.url)
        queued = rule(task(while_something_passes.func))
        assert queued.enqueue(name)
        until(lambda: inspection.locks(names=[lock])[0].holders[0].held_for > 1)

        def something() -> None:
            proxy.lead_to(redis_server.url)
            if ended:
                assert inspection.force_release(lock)
                assert queued.enqueue(name)

        passing.append(something)
        proxy.lead_to("unix:///no-server")
        queued.call(name)
    if ended:
        assert_locked(lock)
    else:
        assert_released(lock)


meanwhile: list[Callable[[], object]] = []
"""What happens each time before a message's name is known."""


def _name_after_all(key: str) -> str:
    if meanwhile:
        meanwhile.pop()()
    return key


@unique_task(_name_after_all)
@task
def named_late(key: str) -> None: ...


def test_an_interrupt_after_a_task_gave_its_lock_up_keeps_the_next_message_s(
    name: str, queue: Any
) -> None:
    keys = [name]
    second: list[Any] = []
    lost: list[str] = []

    def queue_and_run() -> None:
        meanwhile.clear()
        second.clear()
        keys.append(f"{name}:{len(keys)}")
        first = named_late.enqueue(keys[-1])
        meanwhile[:] = [lambda: second.append(named_late.enqueue(keys[-1])), int]
        run(first)

    def check(where: str) -> None:
        if any(second) and inspection.lock(f"queued:{keys[-1]}") is None:
            lost.append(where)

    # Not with the frames of all interrupts: so many connections would wait for each other.
    sweep(queue_and_run, 3, check, keep=False)
    meanwhile.clear()
    assert not lost


@pytest.mark.parametrize("queued", [until_start, until_end])
def test_few_interrupts_of_a_run_leave_a_lock(name: str, queue: Any, queued: Any) -> None:
    left: list[str] = []
    keys = [name]
    taken: list[Any] = []

    def queue_and_run() -> None:
        taken.clear()
        keys.append(f"{name}:{len(keys)}")  # the lock below the task may be left, too
        taken.append(queued.enqueue(keys[-1]))
        run(taken[0])

    def check(where: str) -> None:
        info = inspection.lock(f"queued:{keys[-1]}")
        if taken and info is not None and info.holders:
            left.append(where)

    sweep(queue_and_run, 19, check)
    assert len(left) < 10, left


@pytest.mark.parametrize("which", ALL)
def test_each_tenant_s_message_is_queued_once(name: str, queue: Any, which: str) -> None:
    queued = ALL[which]
    with tenants.sharing():
        with tenants.of("a"):
            first = enqueue(queued, name)
            assert enqueue(queued, name) is None
        with tenants.of("b"):
            assert enqueue(queued, name)
        with tenants.of("a"):
            run(first)
            assert enqueue(queued, name)
        with tenants.of("b"):
            assert enqueue(queued, name) is None
