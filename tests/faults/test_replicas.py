"""With `replicas`, what a fail-over could lose was never granted: WAIT says who knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
from django.db.transaction import atomic
from django.test import override_settings

from redis_locks import Hold, Lock, LockBackendError, LockError, LockLost, NotReplicated, Semaphore
from redis_locks.testing.server import EmbeddedServer
from tests.contract.test_transit import adopt
from tests.faults.proxy import Proxy
from tests.faults.succession import Succession
from tests.support import calls, leases, stored, timings
from tests.support.connections import count_packets
from tests.support.keys import partition_of
from tests.support.world import PATIENCE, Observer, Tasks, World, held, keys_of, until

ALONE = "replicas=1, but 0 acknowledged it within"


@pytest.fixture(scope="module")
def pair() -> Iterator[Succession]:
    with Succession() as made:
        yield made


@pytest.fixture
def on_primary(pair: Succession, name: str) -> Iterator[Observer]:
    """The primary, where nothing is left of the test's lock in the end."""
    with pair.client() as client:
        made = Observer(client)
        yield made
        assert set() == made.left_of(name)


@pytest.fixture
def on_replica(pair: Succession) -> Iterator[Observer]:
    with pair.replica() as client:
        yield Observer(client)


def lock_on(pair: Succession, *names: str, **options: Any) -> Lock:
    """Describe a lock that waits for its replica for a second: a quarter of its lease, at most."""
    return Lock(
        *names, **{"using": pair.url, "replicas": 1, "lease": 4.0, "wait": PATIENCE} | options
    )


@pytest.mark.parametrize("options", [{}, {"mode": "shared"}], ids=["exclusive", "shared"])
def test_a_replica_knows_of_a_hold_when_it_is_given(
    world: World, pair: Succession, on_replica: Observer, name: str, options: dict[str, Any]
) -> None:
    for number in range(10):
        lock = lock_on(pair, f"{name}:{number}", **options)
        hold = held(world, lock)
        assert stored.in_use(on_replica.client, keys_of(hold.name).lock)
        world.release(hold)


def test_a_grant_that_no_replica_knows_of_is_taken_back(
    world: World, pair: Succession, on_primary: Observer, name: str
) -> None:
    with pair.replica_stopped():
        with pytest.raises(NotReplicated, match=ALONE) as caught:
            world.acquire(lock_on(pair, name, wait=0))
        assert (name, 0, 1) == (caught.value.name, caught.value.acknowledged, caught.value.wanted)
        assert set() == on_primary.left_of(name)
    world.release(held(world, lock_on(pair, name)))


def test_a_server_without_enough_replicas_grants_nothing(
    world: World, redis_server: EmbeddedServer, server_side: Observer, name: str
) -> None:
    started = monotonic()
    with pytest.raises(NotReplicated, match="doctor"):
        world.acquire(Lock(name, replicas=1, lease=0.4, wait=None))
    assert monotonic() - started < PATIENCE / 2
    assert set() == server_side.left_of(name)


def test_a_replica_knows_of_a_hold_that_was_handed_over(
    world: World, pair: Succession, on_primary: Observer, on_replica: Observer, name: str
) -> None:
    """The releaser's connection has written it, so that the waiter's has nothing to wait for."""
    hold = held(world, lock_on(pair, name, replicas=0))
    waiters = [world.start(world.acquire, lock_on(pair, name)) for _ in range(2)]
    on_primary.until_waiters(name, 2)
    with pair.replica_stopped():
        world.release(hold)
        for waiter in waiters:
            with pytest.raises(NotReplicated):
                waiter.result(PATIENCE)
        assert set() == on_primary.left_of(name)
    hold = held(world, lock_on(pair, name))
    waiter = world.start(world.acquire, lock_on(pair, name))
    on_primary.until_waiters(name, 1)
    world.release(hold)
    successor = waiter.result(PATIENCE)
    assert successor.token == on_replica.holder(name)
    world.release(successor)


def test_a_hold_lasts_no_longer_than_replicas_know(
    world: World, pair: Succession, on_primary: Observer, name: str
) -> None:
    hold = held(world, lock_on(pair, name, lease=2.4))
    beside = held(world, lock_on(pair, f"{name}:beside", replicas=0, lease=1.8))
    leases.until_renewed(hold)
    with pair.replica_stopped():
        with pytest.raises(NotReplicated, match=ALONE):
            world.extend(hold, 60)
        believed = leases.ends_at(hold)
        # On the primary it lasts for a minute, and whoever was promoted now would not know.
        assert stored.lease_left_ms(on_primary.client, keys_of(name).lock) > 30_000
        until(lambda: hold.is_lost)
        assert believed >= leases.ends_at(hold)
        beside.check()  # its renewal did not wait for replicas
    with pytest.raises(LockLost):
        world.release(hold)
    world.release(beside)


def test_an_acquire_takes_one_round_trip_unless_a_queue_is_in_the_way(
    pair: Succession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = lock_on(pair, name, read=[("GET", "x")])
    with lock:  # the server has the scripts, and there is a connection
        pass
    packets = count_packets(monkeypatch)
    hold = lock.acquire()
    assert hold is not None
    assert ([4], [None]) == (packets, hold.read)
    hold.release()


def test_an_event_loop_goes_on_while_one_of_its_tasks_waits_for_replicas(
    pair: Succession, name: str, tasks: Tasks
) -> None:
    async def both() -> int:
        alone = asyncio.create_task(lock_on(pair, name, lease=4).aacquire())
        cycles = 0
        while not alone.done():
            async with lock_on(pair, f"{name}:beside", replicas=0):
                cycles += 1
        with pytest.raises(NotReplicated):
            await alone
        return cycles

    with pair.replica_stopped(patience=0.3):
        assert 5 < tasks.run(both())


def test_a_task_that_is_cancelled_while_it_waits_for_replicas_holds_nothing(
    pair: Succession, on_primary: Observer, name: str, tasks: Tasks
) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(lock_on(pair, name, lease=60).aacquire())
        await asyncio.to_thread(until, lambda: on_primary.holder(name))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert set() == on_primary.left_of(name)

    with pair.replica_stopped():
        started = monotonic()
        tasks.run(cancelled())
        # The connection on which the server waits is nobody's any more.
        assert monotonic() - started < 60 / 4
    tasks.release(held(tasks, lock_on(pair, name)))


def test_a_lease_that_ends_while_its_holder_waits_for_replicas_is_no_hold(
    world: World, pair: Succession, on_primary: Observer, name: str
) -> None:
    with timings.replicas_may_outlast_the_lease(PATIENCE):
        with pair.replica_stopped():
            acquiring = world.start(world.acquire, lock_on(pair, name, lease=0.2))
            until(lambda: on_primary.holder(name))
            until(lambda: not on_primary.holder(name))
        with pytest.raises(LockError, match="lost before its replicas knew of it"):
            acquiring.result(PATIENCE)


def test_a_primary_that_is_demoted_while_it_waits_for_replicas_is_not_believed(
    world: World, pair: Succession, on_primary: Observer, name: str
) -> None:
    hold = held(world, lock_on(pair, name, lease=PATIENCE))
    with pair.replica_stopped(patience=PATIENCE):
        extending = world.start(world.extend, hold, 2 * PATIENCE)
        until(lambda: on_primary.client.info("clients")["blocked_clients"])
        on_primary.client.replicaof("127.0.0.1", 1)
        with pytest.raises(LockBackendError, match="point CONNECTION at the primary"):
            extending.result(PATIENCE)
        on_primary.client.replicaof("NO", "ONE")
    pair.follow()
    world.release(hold)


@pytest.mark.parametrize("position", [1, 2])
def test_a_lost_reply_is_asked_for_again(
    world: World,
    pair: Succession,
    on_primary: Observer,
    on_replica: Observer,
    name: str,
    position: int,
) -> None:
    """Asked again, the acquire writes nothing; what says that replicas know is another write."""
    with Proxy(pair.url) as proxy:
        world.release(held(world, lock_on(pair, f"{name}:0", using=proxy.url)))
        proxy.lose(position)
        hold = held(world, lock_on(pair, name, using=proxy.url))
        if proxy.lost:
            assert hold.token == on_replica.holder(name)
        with pair.replica_stopped():
            proxy.lose(position)
            with pytest.raises(NotReplicated):
                world.acquire(lock_on(pair, f"{name}:2", using=proxy.url))
        proxy.lose(0)
        world.release(hold)
    assert set() == on_primary.left_of(f"{name}:2")


def test_an_upgrade_that_no_replica_knows_of_leaves_the_hold_shared(
    world: World, pair: Succession, on_primary: Observer, on_replica: Observer, name: str
) -> None:
    hold = held(world, lock_on(pair, name, mode="shared", lease=4))
    with pair.replica_stopped():
        with pytest.raises(NotReplicated):
            world.do(hold, "upgrade", wait=0)
        assert "shared" == hold.mode
        world.release(held(world, lock_on(pair, name, mode="shared", replicas=0)))
    world.do(hold, "upgrade", wait=0)
    assert hold.token == on_replica.holder(name)
    world.release(hold)


def test_a_hold_that_was_given_away_waits_for_replicas_there_too(
    pair: Succession, on_primary: Observer, on_replica: Observer, name: str
) -> None:
    hold = lock_on(pair, name, lease=4).acquire()
    assert hold is not None
    text = hold.detach()
    with pair.replica_stopped(), pytest.raises(NotReplicated):
        Hold.adopt(text, using=pair.url)
    until(lambda: not on_primary.left_of(name))  # it is given back in the background
    hold = lock_on(pair, name).acquire()
    assert hold is not None
    with Hold.adopt(hold.detach(), using=pair.url) as adopted:
        assert adopted.token == on_replica.holder(name)


def test_a_hold_that_was_asked_for_twice_is_still_this_hold_after_an_interrupted_detachment(
    pair: Succession, on_primary: Observer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question that moves it back counts the broken one, or the server takes it for late."""
    with Proxy(pair.url) as proxy:
        lock = lock_on(pair, name, using=proxy.url)
        lock.acquire().release()  # the server knows the scripts
        proxy.lose(1, late=True)
        hold = lock.acquire()
        calls.lose_the_reply(monkeypatch, "adopt", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            hold.detach()
        assert hold.token == on_primary.holder(name)
        hold.release()


def test_an_adoption_that_is_known_too_late_leaves_no_hold(
    world: World, pair: Succession, on_primary: Observer, name: str
) -> None:
    text = world.do(held(world, lock_on(pair, name, lease=1.0)), "detach")
    with timings.replicas_answer_after_the_lease(), pytest.raises(LockLost, match="lease ended"):
        adopt(world, text, using=pair.url)


def test_a_detachment_that_is_known_too_late_leaves_a_lost_hold_to_release(
    world: World, pair: Succession, on_primary: Observer, name: str
) -> None:
    hold = held(world, lock_on(pair, name, lease=1.0))
    with timings.replicas_answer_after_the_lease(), pytest.raises(LockLost, match="lease ended"):
        world.do(hold, "detach")
    with pytest.raises(LockLost):
        world.release(hold)


def test_a_nested_hold_cannot_ask_for_more_replicas(
    pair: Succession, on_primary: Observer, on_replica: Observer, name: str
) -> None:
    with lock_on(pair, name, replicas=0), pytest.raises(LockError, match="give the outer one"):
        lock_on(pair, name).acquire()
    with lock_on(pair, name), lock_on(pair, name, replicas=0), lock_on(pair, name) as hold:
        assert hold.token == on_replica.holder(name)


@pytest.mark.parametrize("partitions", [1, 16])
def test_the_setting_holds_for_locks_of_all_kinds(
    pair: Succession, on_replica: Observer, name: str, partitions: int
) -> None:
    configured = {"CONNECTION": pair.url, "REPLICAS": 1, "LEASE": 4.0, "PARTITIONS": partitions}
    names = [f"{name}:{number}" for number in range(4)]
    with override_settings(REDIS_LOCKS=configured), pair.client() as client:
        with Semaphore(name, 2), Lock(*names) as hold:
            patterns = (f"*:sharers:{name}", *(f"*:lock:{each}" for each in names))
            assert all(on_replica.client.keys(pattern) for pattern in patterns)
            hold.extend(2)
        with pair.replica_stopped():
            for lock in (Semaphore(name, 2), Lock(*names)):
                with pytest.raises(NotReplicated):
                    lock.acquire()
            with Lock(name, replicas=0):
                pass
        locks = client.keys(f"*:lock:{name}*")
        assert [] == [lock for lock in locks if stored.in_use(client, lock)]


@pytest.mark.django_db(transaction=True)
def test_each_partition_of_a_kept_set_has_the_replicas_that_are_asked_for(pair: Succession) -> None:
    names = {partition_of(f"lock:{i}", 2): f"lock:{i}" for i in range(50)}
    with override_settings(REDIS_LOCKS={"PARTITIONS": 2}), atomic():
        lock_on(pair, names[0]).acquire()
        lock_on(pair, names[0], names[1], replicas=0).acquire()
        with pytest.raises(LockError, match="cannot have replicas=1"):
            lock_on(pair, names[0], names[1]).acquire()
