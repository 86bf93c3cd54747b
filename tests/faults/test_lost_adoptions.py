"""The adoption ran, its reply got lost: the hold is neither lost nor doubled."""

from __future__ import annotations

import pytest

from redis_locks import Lock
from tests.contract.test_transit import adopt
from tests.contract.world import Observer, World, held
from tests.faults.proxy import Proxy


@pytest.mark.parametrize("losses", [1, 2])
def test_a_lost_reply_neither_loses_nor_doubles_it(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    text = world.do(held(world, Lock(name, using=proxy.url, renew=False)), "detach")
    proxy.lose(1, losses=losses)
    adopted = adopt(world, text, using=proxy.url, renew=False)
    assert losses == proxy.lost
    assert adopted.token == server_side.holder(name)
    world.release(adopted)
    assert server_side.holder(name) is None
