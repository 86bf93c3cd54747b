"""A user of Redis with just the documented rights, and users that lack one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from redis_locks import (
    AlreadyDone,
    DeadlockDetected,
    Lock,
    LockBackendError,
    LockError,
    LockLost,
    LockNotAvailable,
    Semaphore,
    compat,
    inspection,
    run_once,
)
from redis_locks.testing.server import EmbeddedServer
from tests.contract.test_deadlock import Meeting, party
from tests.optimistic.sides import Adding, Side
from tests.run_once.world import Workers, begun
from tests.support import events, stored, timings
from tests.support.diagnosis import rights
from tests.support.world import Observer, Threads, World, granted, held, keys_of, until

OWN = ("(~data:* +get +incr +incrby)", "(~data:* ~redis_locks:* +watch)")
"""What the application does itself, in `read=`, `Hold.commit` and `optimistic`."""


def user_url(server: EmbeddedServer, *rules: str, name: str = "app") -> str:
    """The address for a user with these rights and no others."""
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", name, "reset", "on", ">secret", *rules)
    return server.url.replace("unix://", f"unix://{name}:secret@")


@pytest.fixture(scope="module")
def least(own_server: EmbeddedServer) -> Iterator[str]:
    """The address for a user with the documented rights; at the end nothing was denied to it."""
    url = user_url(own_server, rights.rule("redis_locks"), *OWN)
    yield url
    with own_server.client() as admin:
        denied = {
            entry["object"] for entry in admin.acl_log(count=128) if entry["username"] == "app"
        }
    # Whoever opens a connection tells the name of its library, and does without if it may not.
    assert {"client|setinfo"} >= denied


@pytest.fixture
def app(least: str, own_server: EmbeddedServer) -> Iterator[Observer]:
    """Locks are on a server where our user has just the documented rights; the observer has all."""
    configured = {"CONNECTION": least, "DEADLOCK_TIMEOUT": 0.1}
    with override_settings(REDIS_LOCKS=configured), own_server.client() as admin:
        yield Observer(admin)


def test_a_lock_is_waited_for_and_handed_off(world: World, app: Observer, name: str) -> None:
    hold = held(world, Lock(name))
    with pytest.raises(LockNotAvailable):
        world.block(Lock(name, wait=0), lambda _: None)
    waiter = world.start(world.acquire, Lock(name, wait=20))
    app.until_waiters(name, 1)
    world.release(hold)
    world.release(waiter.result(20))
    assert set() == app.left_of(name)


def test_a_lease_is_renewed(world: World, app: Observer, name: str) -> None:
    hold = held(world, Lock(name, lease=2))
    ends = stored.lease_ends_ms(app.client, keys_of(name).lock)
    until(lambda: stored.lease_ends_ms(app.client, keys_of(name).lock) > ends)
    world.extend(hold, 5)
    world.release(hold)


def test_modes_sets_and_permits(world: World, app: Observer, name: str) -> None:
    first, second = held(world, Lock(name, mode="shared")), held(world, Lock(name, mode="shared"))
    world.release(second)
    world.do(first, "upgrade", wait=0)
    world.do(first, "downgrade")
    pair = world.start(world.acquire, Lock(name, f"{name}:2", wait=20))
    app.until_waiters(name, 1)
    world.release(first)
    world.release(pair.result(20))
    permits = [held(world, Semaphore(name, 2)) for _ in range(2)]
    third = world.start(world.acquire, Semaphore(name, 2, wait=20))
    app.until_waiters(name, 1)
    world.release(permits[0])
    world.release(third.result(20))
    world.release(permits[1])
    assert set() == app.left_of(name)


def test_deadlocks_are_found(world: World, app: Observer, name: str) -> None:
    first, second = Lock(name, wait=20), Lock(f"{name}:2", wait=20)
    meeting = Meeting(2)
    parties = [party(world, first, second, meeting), party(world, second, first, meeting)]
    errors = [future.exception(20) for future in parties]
    assert [DeadlockDetected] == [type(error) for error in errors if error is not None]
    assert set() == app.left_of(name)


def test_reads_and_commits_need_the_application_s_own_rights_besides(
    world: World, app: Observer, name: str, least: str
) -> None:
    hold = held(world, Lock(name, read=[("GET", f"data:{name}")]))
    assert [None] == hold.read
    with redis.Redis.from_url(least) as client:
        pipe = client.pipeline()
        pipe.incr(f"data:{name}")
        world.do(hold, "commit", pipe)
    assert b"1" == app.client.get(f"data:{name}")


def test_operators_see_release_and_cancel(world: World, app: Observer, name: str) -> None:
    hold = held(world, Lock(name))
    waiter = world.start(world.acquire, Lock(name, wait=20))
    app.until_waiters(name, 1)
    assert name in [info.name for info in inspection.locks()]
    info = inspection.lock(name)
    assert inspection.cancel(info.waiters[0])
    with pytest.raises(LockError, match="cancelled"):
        waiter.result(20)
    assert inspection.force_release(name)
    with pytest.raises(LockLost):
        world.release(hold)


def test_run_once_fails_and_is_done(workers: Workers, app: Observer, name: str) -> None:
    job = run_once(name, store_result=True)
    workers.fail(begun(workers, job), "no luck")
    attempt = begun(workers, job)
    assert "running" == workers.status(job).state
    workers.done(attempt, {"sent": 1})
    with pytest.raises(AlreadyDone):
        workers.block(job, lambda _: None)


def test_optimistic_transactions_need_just_the_commands_listed(
    side: Side, app: Observer, name: str
) -> None:
    app.client.config_resetstat()
    key = f"data:{name}"
    body = Adding(key, 1, lambda attempt: app.client.incr(key) if attempt < 2 else None)
    here = settings.REDIS_LOCKS["CONNECTION"]
    assert 2 == side.run(body, key, using=here, escalate_to=name, escalate_after=1)
    assert key in [rate.key for rate in side.conflicts(using=here)]
    side.run(Adding(key), key, using=here, operation_id=name)

    async def nothing(pipe: Any) -> None:
        await pipe.read("get", key)

    side.run(nothing, key, using=here)
    sent = {command.removeprefix("cmdstat_") for command in app.client.info("commandstats")}
    assert {command.lower() for command in rights._TRANSACTIONS} <= sent


def test_compat_locks_need_what_the_rule_gives(
    app: Observer, own_server: EmbeddedServer, name: str
) -> None:
    rule = rights.rule("redis_locks").replace("(", f"(~{name} ~{name}:redis_locks:* ")
    url = user_url(own_server, rule, name="old")
    with redis.Redis.from_url(url) as client:
        lock = client.lock(name, lock_class=compat.Lock)
        assert lock.acquire()
        waiter = Threads().start(client.lock(name, lock_class=compat.Lock).acquire)
        until(lambda: app.client.zcard(f"{name}:redis_locks:line"))
        lock.release()
        assert waiter.result(20)


def test_the_rule_gives_no_more_than_that(app: Observer, own_server: EmbeddedServer) -> None:
    app.client.set("other", 1)
    url = user_url(own_server, rights.rule("redis_locks"), name="curious")
    commands = ("GET other", "SET other 2", "FLUSHDB", "KEYS *", "PUBLISH news 1", "CONFIG GET *")
    with redis.Redis.from_url(url) as client:
        for command in commands:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
        with pytest.raises(redis.exceptions.ResponseError, match=r"ACL|can't|permission"):
            client.eval("return redis.call('GET', 'other')", 0)


def test_a_database_other_than_0_needs_select(
    world: World, own_server: EmbeddedServer, name: str
) -> None:
    rule = rights.rule("redis_locks", database=1)
    url = f"{user_url(own_server, rule, name='one')}?db=1"
    world.release(held(world, Lock(name, using=url)))
    without = f"{user_url(own_server, rights.rule('redis_locks'), name='none')}?db=1"
    with pytest.raises(LockBackendError, match="denies our user a right"):
        world.acquire(Lock(name, using=without))


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        (("-subscribe",), "subscribe|permission"),
        (("-zadd",), "zadd|can't run this command"),
        (("resetchannels", "&other"), "channel"),
        (("resetkeys", "~other"), "key"),
    ],
)
def test_a_missing_right_is_an_error_that_names_it_and_the_fix(
    world: World, own_server: EmbeddedServer, name: str, lacking: tuple[str, ...], named: str
) -> None:
    url = user_url(own_server, "+@all", "~*", "&*", *lacking, name=f"lacking-{lacking[-1][1:]}")
    with pytest.raises(LockBackendError) as caught:
        world.acquire(Lock(name, using=url))
    assert re.search(named, str(caught.value))
    assert "manage.py locks doctor" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.fixture
def losing(own_server: EmbeddedServer) -> Iterator[tuple[str, Callable[[str], object]]]:
    """The address of a user with all rights, and what takes the right to a command from them."""
    url = user_url(own_server, "+@all", "~*", "&*", name="losing")
    with own_server.client() as admin:
        yield url, lambda right: admin.execute_command("ACL", "SETUSER", "losing", f"-{right}")


@pytest.mark.parametrize("right", ["publish", "zadd"])
def test_a_right_that_a_release_lacks_half_way_is_named(
    world: World,
    losing: tuple[str, Callable[[str], object]],
    own_server: EmbeddedServer,
    name: str,
    right: str,
) -> None:
    """The script has freed the lock when it is refused: so the hold is not lost."""
    url, lose = losing
    hold = held(world, Lock(name, using=url))
    waiter = Threads().start(Lock(name, using=own_server.url, wait=20).acquire)
    with own_server.client() as admin:
        Observer(admin).until_waiters(name, 1)
    lose(right)
    with pytest.raises(LockBackendError, match="denies our user a right"):
        world.release(hold)
    waiter.result(20).release()


@pytest.mark.parametrize("right", ["hincrby", "hset"])
def test_a_right_that_an_acquire_lacks_half_way_is_named(
    world: World, losing: tuple[str, Callable[[str], object]], name: str, right: str
) -> None:
    url, lose = losing
    shared = Lock(name, mode="shared", using=url)
    hold = held(world, shared)
    lose(right)
    with pytest.raises(LockBackendError, match="denies our user a right"):
        world.acquire(shared)
    with pytest.raises(LockBackendError, match="denies our user a right"):
        world.release(hold)


def test_a_commit_that_lacks_a_right_half_way_has_run_its_commands_once(
    losing: tuple[str, Callable[[str], object]], own_server: EmbeddedServer, name: str
) -> None:
    url, lose = losing
    granted(Lock(f"{name}:before", using=url).acquire()).commit([("DEL", name)])  # it is known
    hold = granted(Lock(name, using=url).acquire())
    waiter = Threads().start(Lock(name, using=own_server.url, wait=20).acquire)
    with own_server.client() as admin:
        Observer(admin).until_waiters(name, 1)
        lose("hdel")
        with pytest.raises(LockBackendError, match="denies our user a right") as caught:
            hold.commit([("INCR", f"{name}:count")])
        assert caught.value.may_be_done
        assert b"1" == admin.get(f"{name}:count")
        admin.execute_command("ACL", "SETUSER", "losing", "+hdel")
        hold.commit([("INCR", f"{name}:count")])  # as the error of another one says
        assert b"1" == admin.get(f"{name}:count")
    waiter.result(20).release()


def server_time(client: redis.Redis) -> float:
    seconds, microseconds = client.time()
    return seconds + microseconds / 1e6


def test_a_user_who_lacks_a_right_costs_no_other_user_s_permit(
    world: World, own_server: EmbeddedServer, name: str
) -> None:
    """The script that the user runs is refused half-way: what it has written must not count."""
    url = user_url(own_server, "+@all", "~*", "&*", "-hincrby", name="lacking-hincrby")
    permits = Semaphore(name, 2, using=own_server.url, wait=0)
    hold = held(world, permits)
    lacking = Semaphore(name, 2, using=url, lease=0.1)
    with pytest.raises(LockBackendError, match="denies our user a right"):
        world.acquire(lacking)
    with own_server.client() as admin:
        refused_at = server_time(admin)
        until(lambda: server_time(admin) > refused_at + 0.1)  # the lease that it asked for is over
    second = held(world, permits)
    with pytest.raises(LockNotAvailable):
        world.block(permits, lambda _: None)
    for each in (hold, second):
        world.release(each)


def test_wrong_credentials_are_told_from_an_absent_server(
    world: World, own_server: EmbeddedServer, name: str
) -> None:
    url = user_url(own_server, "+@all", name="someone").replace("secret", "guess")
    with pytest.raises(LockBackendError, match="refused our credentials") as caught:
        world.acquire(Lock(name, using=url))
    assert "guess" not in str(caught.value)


@pytest.mark.parametrize("right", ["blpop", "client|reply"])
def test_without_the_rights_to_what_makes_it_quick_a_lock_is_handed_on_all_the_same(
    own_server: EmbeddedServer, name: str, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = rights.rule("redis_locks").replace(f" +{right}", "")
    # What is read along asks for its turn as well.
    lock = Lock(
        name, using=user_url(own_server, rule, name="quiet"), read=[("GET", "redis_locks:none")]
    )
    events.nobody_counts(monkeypatch)  # nobody wants to know who holds it
    timings.waits_are_brief_below(monkeypatch, 20)

    def take() -> None:
        for _ in range(3):
            with lock.hold(wait=20):
                pass

    with own_server.client() as admin:
        with lock.hold():
            heirs = [Threads().start(take) for _ in range(2)]
            Observer(admin).until_waiters(name, 2)
        for heir in heirs:
            heir.result(20)
        log = admin.acl_log(count=128)
        assert right in {entry["object"] for entry in log if entry["username"] == "quiet"}
        assert set() == Observer(admin).left_of(name) - {"index"}


def test_the_documented_rule_is_the_one_that_the_doctor_gives() -> None:
    text = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
    printed = re.search(r"ACL SETUSER app on '>…' \((.*?)\)", text, re.DOTALL)
    assert rights.rule("redis_locks") == f"({' '.join(printed[1].split())})"
