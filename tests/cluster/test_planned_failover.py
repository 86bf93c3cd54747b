"""A master and its replica change places as planned: nothing is lost, and nobody holds beside somebody else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from redis_locks import Lock
from redis_locks.drivers.cluster_link import ClusterLink
from tests.cluster.nodes import Node, Nodes
from tests.cluster.waiters import until_waiters
from tests.support.world import PATIENCE, Tasks, Threads, World, held

pytestmark = pytest.mark.ci

HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with Nodes(replicas=1) as made:
        yield made


@pytest.fixture(params=[Threads, Tasks], ids=["blocking", "async"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World = request.param()
    yield made
    made.close()


def learn_late(patch: pytest.MonkeyPatch, slot: int, former: Node, present: Node) -> list[int]:
    """Let the process learn of a fail-over after the first waiter has subscribed, and before it asks.

    Another thread or task may meet a redirection then. Returns where waiters have subscribed.
    """
    subscribe, ports = ClusterLink.subscribe, list[int]()

    async def subscribe_early(link: ClusterLink, keys: Sequence[bytes]) -> None:
        slots, is_first = link._nodes.slots, not ports
        if is_first:
            slots.moved(slot, HERE, former.port, (HERE, former.port))
        await subscribe(link, keys)
        ports.append(link._subscribed_at[1])
        if is_first:
            slots.moved(slot, HERE, present.port, (HERE, present.port))

    patch.setattr(ClusterLink, "subscribe", subscribe_early)
    return ports


def test_a_waiter_that_listens_on_a_former_master_does_not_stand_in_line_on_the_new_one(
    on_nodes: Nodes, world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one would pass it over, and the cluster's bus would tell it the grant all the same."""
    (each,) = on_nodes.names_in(4, 1)
    hold = held(world, Lock(each, lease=60))
    former = on_nodes.owner(name, 4)
    present = on_nodes.replica_of(former)
    on_nodes.fail_over(present)
    ports = learn_late(monkeypatch, on_nodes.slot(name, 4), former, present)
    lock = Lock(each, wait=PATIENCE, lease=60)
    first = world.start(world.acquire, lock)
    until_waiters(each, 1)
    second = world.start(world.acquire, lock)
    until_waiters(each, 2)
    assert former.port == ports[0]
    world.release(hold)
    one = first.result(PATIENCE)
    assert one.fencing_token > hold.fencing_token
    assert not second.done()
    one.check()
    world.release(one)
    other = second.result(PATIENCE)
    assert other.fencing_token > one.fencing_token
    world.release(other)
