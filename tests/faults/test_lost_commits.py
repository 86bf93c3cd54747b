"""The commit ran, its reply got lost: it is neither applied twice nor reported as a loss."""

from __future__ import annotations

import pytest
import redis

from redis_locks import Lock
from tests.faults.proxy import Proxy
from tests.support.world import Observer, World, held


@pytest.mark.parametrize("losses", [1, 2])
def test_a_commit_whose_reply_was_lost_is_applied_once(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    with redis.Redis.from_url(proxy.url) as client:
        hold = held(world, Lock(name, using=proxy.url, renew=False))
        pipe = client.pipeline()
        pipe.incr(f"data:{name}")
        proxy.lose(1, losses=losses)
        world.do(hold, "commit", pipe)
    assert losses == proxy.lost
    assert b"1" == server_side.client.get(f"data:{name}")
    assert not hold.is_lost
    assert set() == server_side.left_of(name)


def test_an_acquire_whose_reply_was_lost_still_reads(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    server_side.client.set(f"data:{name}", "x")
    lock = Lock(name, using=proxy.url, read=[("GET", f"data:{name}")])
    world.release(held(world, lock))
    proxy.lose(1)
    hold = held(world, lock)
    assert 1 == proxy.lost
    assert [b"x"] == hold.read
    world.release(hold)
