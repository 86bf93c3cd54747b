"""A master and its replica swap places as planned: nothing is lost, and no two hold at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redis_locks import Lock
from tests.cluster.nodes import Nodes
from tests.cluster.waiters import until_waiters
from tests.support.slots import learn_late
from tests.support.world import PATIENCE, World, held

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with Nodes(replicas=1) as made:
        yield made


def test_a_waiter_that_listens_on_a_former_master_does_not_stand_in_line_on_the_new_one(
    on_nodes: Nodes, world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one would skip it, and the cluster's bus would tell it the grant all the same."""
    (each,) = on_nodes.names_in(4, 1)
    hold = held(world, Lock(each, lease=60))
    former = on_nodes.owner(name, 4)
    present = on_nodes.replica_of(former)
    on_nodes.fail_over(present)
    ports = learn_late(monkeypatch, on_nodes.slot(name, 4), former.port, present.port)
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
