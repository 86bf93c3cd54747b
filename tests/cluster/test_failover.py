"""A master dies under load and its replica takes over: waiters go on, the ledger stays whole."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.test import override_settings

from redis_locks import Lock, LockLost, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.cluster.nodes import Nodes
from tests.cluster.waiters import until_waiters
from tests.faults import subjects
from tests.faults.arena import NAME, Process
from tests.faults.counts import Counts, Tally
from tests.faults.ledger import Ledger, new_account
from tests.support import stored
from tests.support.keys import lock_keys
from tests.support.world import PATIENCE, World, held, until

pytestmark = pytest.mark.ci

WORKERS = 4


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with Nodes(replicas=1) as made:
        yield made


@pytest.mark.verdict
def test_workers_go_on_after_a_master_was_killed(
    nodes: Nodes, redis_server: EmbeddedServer, tmp_path: Path
) -> None:
    account = new_account()
    workers = [
        Process(
            {
                "subject": subjects.OURS_ASYNC if number % 2 else subjects.OURS,
                "url": nodes.url,
                "names": [NAME],
                "mode": "exclusive",
                "lease": 1.0,
                "renew": True,
                "ledger": redis_server.url,
                "accounts": [account],
                "body": (0.0, 0.004),
                "seed": number,
                "log": str(tmp_path / f"{number}.log"),
            },
            tmp_path / f"{number}.log",
        )
        for number in range(WORKERS)
    ]
    try:
        started = time.monotonic()
        until(lambda: all(worker.diary.held_since(started) for worker in workers), within=40)
        victim = nodes.owner("redis_locks", 0)
        victim.server.kill()
        survivor = next(node for node in nodes.masters if node is not victim)
        until(lambda: nodes.owner("redis_locks", 0, asked=survivor) is not victim, within=40)
        over = time.monotonic()
        until(lambda: all(worker.diary.held_since(over) for worker in workers), within=40)
    finally:
        for worker in workers:
            worker.ask_to_stop()
        for worker in workers:
            worker.close(PATIENCE)
    counts = Counts()
    allowed = frozenset({"LockBackendError"})
    tally = Tally(counts, longest=1.0, allowed=allowed, promised=False, numbered=True)
    tally.read([worker.diary for worker in workers], final=True)
    assert {} == counts.failures()
    with redis.Redis.from_url(redis_server.url) as client:
        books = Ledger(client, account).books()
    assert (0, 0) == (books.stale, books.drift)
    assert books.deposits > 0


def test_what_the_successor_knows_counts(nodes: Nodes, worlds: list[World], name: str) -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": nodes.url, "PREFIX": name, "PARTITIONS": 12}):
        victim = nodes.owner(name, 0)
        survivor = next(node for node in nodes.masters if node is not victim)
        kept_names, lost_names = nodes.names_in(0, 2), nodes.names_in(0, 4)[2:]
        kept = [held(w, Lock(each, lease=60)) for w, each in zip(worlds, kept_names, strict=True)]
        lost = [held(w, Lock(each, lease=60)) for w, each in zip(worlds, lost_names, strict=True)]
        waiters = [
            world.start(world.acquire, Lock(each, wait=PATIENCE))
            for world, each in zip(worlds, kept_names, strict=True)
        ]
        for each in kept_names:
            until_waiters(each, 1)
        assert 1 == victim.client.wait(1, 5000)
        victim.server.kill()
        until(lambda: nodes.owner(name, 0, asked=survivor) is not victim, within=40)
        promoted = nodes.owner(name, 0, asked=survivor)
        # As if these had been granted just before the end:
        for each in lost_names:
            stored.drop_holder(promoted.client, lock_keys(name, 0, each).lock)
        for world, hold in zip(worlds, lost, strict=True):
            with pytest.raises(LockLost):
                world.extend(hold, 60)
            assert hold.is_lost
            successor = held(world, Lock(hold.name, wait=PATIENCE))
            assert successor.fencing_token > hold.fencing_token
            world.release(successor)
        for world, hold, waiter in zip(worlds, kept, waiters, strict=True):
            hold.check()
            world.release(hold)
            successor_or_none = waiter.result(PATIENCE)
            assert successor_or_none.fencing_token > hold.fencing_token
            world.release(successor_or_none)
        assert [] == inspection.locks()


@pytest.mark.long
def test_a_node_that_stands_still_keeps_no_lease_on_another_from_renewal(
    nodes: Nodes, worlds: list[World], name: str
) -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": nodes.url, "PREFIX": name, "PARTITIONS": 12}):
        victim = nodes.owner(name, 0)
        elsewhere = next(number for number in range(12) if nodes.owner(name, number) is not victim)
        theirs = [
            held(world, Lock(*nodes.names_in(0, 1), mode="shared", lease=3)) for world in worlds
        ]
        safe = [
            held(world, Lock(*nodes.names_in(elsewhere, 1), mode="shared", lease=3))
            for world in worlds
        ]
        os.kill(victim.server.pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            # Far longer than the lease, and than a link waits for a reply.
            until(lambda: time.monotonic() > started + 7, within=60)
            for hold in safe:
                hold.check()
        finally:
            os.kill(victim.server.pid, signal.SIGCONT)
        for world, hold in zip(worlds, safe, strict=True):
            world.release(hold)
        for world, hold in zip(worlds, theirs, strict=True):
            with contextlib.suppress(LockLost):
                world.release(hold)
