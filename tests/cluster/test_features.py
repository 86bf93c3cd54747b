"""Features on locks, on all masters: commands, admin, views, jobs, rows, statistics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Permission, User
from django.db.transaction import atomic
from django.test import AsyncClient, Client, override_settings
from django.urls import reverse

from redis_locks import (
    Lock,
    LockNotAvailable,
    inspection,
    key_beside,
    redis_lock,
    run_once,
    statistics,
)
from redis_locks.rows import RedisLockQuerySet, lock_model, lock_rows
from tests.cluster.nodes import Nodes
from tests.django import locked_views
from tests.django.command_calls import run
from tests.django.locked_views import BY_THEMSELVES
from tests.elsewhere import in_thread
from tests.ledger.models import Counter, Entry
from tests.optimistic.sides import Adding, AsyncSide, BlockingSide, Side
from tests.run_once.conftest import workers
from tests.run_once.world import Workers, begun
from tests.support.admin import mark_of, to_path
from tests.support.parties import held, on_host, waited_for
from tests.support.statistics import flush
from tests.support.world import PATIENCE, World, until

__all__ = ["workers"]

pytestmark = pytest.mark.ci


@pytest.fixture(autouse=True)
def _counted_apart() -> None:
    flush()


@pytest.fixture
def names(on_nodes: Nodes, name: str) -> list[str]:
    """A lock on each master, in the order of their names."""
    return sorted(on_nodes.one_for_each(name).values())


@pytest.fixture
def held_names(names: list[str]) -> Iterator[list[str]]:
    """A lock on each master that is held."""
    with ExitStack() as holds:
        for each in names:
            holds.enter_context(held(each, label=f"holder of {each}"))
        yield names


@pytest.fixture(params=[BlockingSide, AsyncSide], ids=["blocking", "async"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    made: Side = request.param()
    yield made
    made.world.close()


def test_the_command_lists_and_shows_what_is_on_every_node(held_names: list[str]) -> None:
    with waited_for(held_names[1], "the waiter"):
        listed = json.loads(run("list", "--json")[0])
        assert held_names == sorted(lock["name"] for lock in listed)
        assert [held_names[1]] == [
            lock["name"] for lock in json.loads(run("list", "--contended", "--json")[0])
        ]
        shown = json.loads(run("show", held_names[1], "--json")[0])
        assert f"holder of {held_names[1]}" == shown["holders"][0]["label"]
        assert "the waiter" == shown["waiters"][0]["label"]
        assert "the waiter" in run("blocking")[0]


def test_the_command_ends_what_is_on_every_node(names: list[str]) -> None:
    with on_host("web-3"), ExitStack() as stack:
        for each in names:
            stack.enter_context(held(each))
            told = stack.enter_context(waited_for(each))
            run("cancel", each, "--yes")
            until(lambda told=told: told)  # type: ignore[misc]
        run("release", names[0], "--yes")
        assert names[1:] == inspection.names()
        run("drain", "--host", "web-3", "--yes")
        assert [] == inspection.names()


def test_the_command_knows_the_statistics_of_every_node(held_names: list[str]) -> None:
    flush()
    counted = json.loads(run("stats", "--json")[0])
    assert set(held_names) <= {row.get("name") for row in counted}


@pytest.mark.django_db
def test_the_admin_lists_shows_and_ends_what_is_on_every_node(held_names: list[str]) -> None:
    user = User.objects.create_user("staff", is_staff=True)
    codenames = ("view_lock", "release_lock", "cancel_waiter")
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    browser = Client()
    browser.force_login(user)

    def page(view: str, *args: str) -> str:
        response = browser.get(reverse(f"admin:redis_locks_lock_{view}", args=args))
        assert 200 == response.status_code
        return response.content.decode()

    listed = page("changelist")
    for each in held_names:
        assert each in listed
        with waited_for(each, "the waiter"):
            shown = page("change", to_path(each))
            assert f"holder of {each}" in shown
            assert "the waiter" in shown
        # Who waited has released it when its block ends.
        assert inspection.lock(each) is None
        with held(each) as hold:
            form = {"reason": "stuck", "party": mark_of(hold.token)}
            url = reverse("admin:redis_locks_lock_release", args=[to_path(each)])
            assert 302 == browser.post(url, form).status_code
            assert inspection.lock(each) is None


@pytest.mark.urls("tests.django.locked_views")
def test_views_hold_their_lock_whatever_node_has_it(names: list[str]) -> None:
    def in_loop(url: str) -> Any:
        return asyncio.run(AsyncClient().get(url))  # type: ignore[arg-type]

    for each in names:
        for kind in BY_THEMSELVES:
            get: Any = in_loop if kind in locked_views.coroutines() else Client().get
            url = f"/{kind}/{each}/"
            assert b"held" == get(url).content
            with held(each):
                assert 423 == in_thread(get, url).status_code


def test_a_function_holds_a_set_over_all_nodes(names: list[str]) -> None:
    @redis_lock("{first}", "{second}", "{third}", wait=0)
    def function(first: str, second: str, third: str) -> list[str]:
        return inspection.names()

    @redis_lock("{first}", "{second}", "{third}", wait=0)
    async def coroutine(first: str, second: str, third: str) -> list[str]:
        return await inspection.anames()

    assert names == function(*names)
    assert names == asyncio.run(coroutine(*names))
    with held(names[-1]), pytest.raises(LockNotAvailable):
        in_thread(function, *names)
    assert [] == inspection.names()


def test_a_job_is_done_once_whatever_node_has_it(names: list[str], workers: Workers) -> None:
    for each in names:
        calls: list[int] = []
        once = workers.function(
            run_once(each, store_result=True), lambda calls=calls: calls.append(1) or 7
        )  # type: ignore[misc]
        failed = begun(workers, run_once(each))
        waiter = workers.start(workers.acquire, run_once(each, wait=PATIENCE))
        until(lambda each=each: (found := inspection.lock(each)) and found.waiting)  # type: ignore[misc]
        workers.fail(failed, "broken")
        second = waiter.result(PATIENCE)
        assert second.fencing_token > failed.fencing_token
        workers.fail(second, "broken again")
        assert [7, 7] == [workers.call(once), workers.call(once)]
        assert [1] == calls
        assert "done" == workers.status(run_once(each)).state
    assert [] == inspection.names()


@pytest.mark.usefixtures("transactional_db", "on_nodes")
def test_rows_of_several_models_are_locked_on_a_cluster(name: str) -> None:
    counters = [Counter.objects.create(name=f"{name}:{number}") for number in range(3)]
    entries = [Entry.objects.create(book=name, number=number) for number in range(3)]
    with lock_rows(counters[:2]) as rows, lock_rows(entries[:1]):
        assert counters[:2] == list(rows)
        ours = Counter.objects.filter(name__startswith=name).order_by("pk")
        skipping = in_thread(lock_rows(ours, skip_locked=True).acquire)
        assert counters[2:] == list(skipping)
        skipping.release()
        with pytest.raises(LockNotAvailable):
            in_thread(lock_rows(entries, nowait=True).__enter__)
        assert in_thread(lock_model(Counter, nowait=True).acquire) is None
        assert 5 == len(inspection.names())  # three rows and two models
    with atomic():
        queryset: Any = RedisLockQuerySet(Counter)
        assert counters[0] == queryset.select_for_lock().get(pk=counters[0].pk)
        assert in_thread(lock_rows(counters[0], nowait=True).acquire) is None
    assert [] == inspection.names()

    async def both() -> None:
        async with lock_rows(Counter.objects.filter(name=f"{name}:0")) as rows:
            assert counters[:1] == list(rows)

    asyncio.run(both())


def test_statistics_of_all_nodes_are_read_as_one(names: list[str], world: World) -> None:
    for turn, each in enumerate(names, 1):
        for _ in range(turn):
            world.block(Lock(each), lambda _: None)
    flush()
    found = {lock.name: lock.acquired for lock in statistics.read().locks}
    assert dict(zip(names, (1, 2, 3), strict=True)) == found
    assert 6 == sum(moment.acquired for moment in statistics.read().moments)


def test_a_detached_hold_goes_on_elsewhere(names: list[str], world: World) -> None:
    for each in names:
        hold = world.acquire(Lock(each))
        adopted = Lock(each)._hold_type.adopt(world.do(hold, "detach"))
        with adopted as here:
            assert here.fencing_token == hold.fencing_token
    assert [] == inspection.names()


def test_an_optimistic_transaction_follows_its_slot(on_nodes: Nodes, name: str, side: Side) -> None:
    """Attempts whose keys others change, on each master, and while their slot moves key by key."""
    with redis.RedisCluster("127.0.0.1", on_nodes.masters[0].port) as client:
        for node, each in on_nodes.one_for_each(name).items():
            keys = [key_beside(each, f"{name}:{number}") for number in range(2)]

            def disturb(attempt: int, key: str = keys[1]) -> None:
                if attempt <= 2:
                    client.incr(key)

            body = Adding(keys[0], 1, disturb)
            assert 1 == side.run(body, *keys, using=on_nodes.url, escalate_to=each)
            assert (3, b"1") == (body.calls, client.get(keys[0]))
            slot = client.keyslot(keys[0])
            target = next(other for other in on_nodes.masters if other is not node)
            for total, to in ((2, target), (3, node)):
                on_nodes.move(slot, to)
                assert total == side.run(Adding(keys[0]), *keys, using=on_nodes.url)
                assert b"%d" % total == client.get(keys[0])
        assert [] == inspection.names()


def test_each_of_three_masters_gets_a_third_of_the_commands(on_nodes: Nodes, name: str) -> None:
    """So three masters serve three times as many uncontended locks as one."""
    count = 600
    entries = {"CONNECTION": on_nodes.url, "PREFIX": name, "PARTITIONS": 64, "STATISTICS": False}
    with override_settings(REDIS_LOCKS=entries):
        before = [node.calls("evalsha") for node in on_nodes.masters]
        for number in range(count):
            with Lock(f"account:{number}"):
                pass
        sent = [
            node.calls("evalsha") - calls
            for node, calls in zip(on_nodes.masters, before, strict=True)
        ]
    assert 2 * count <= sum(sent) <= 2 * count + 12  # some were not known and sent again
    for calls in sent:
        assert 0.8 < calls / (2 * count / 3) < 1.2
