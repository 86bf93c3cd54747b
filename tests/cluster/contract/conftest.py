"""What the contract's tests ask for, on a cluster of three masters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.core.signals import setting_changed

from tests.cluster.nodes import Nodes
from tests.support.connections import use_for_default
from tests.support.fixtures import hold, interrupted_downgrade, tasks, world
from tests.support.world import Observer


@pytest.fixture(autouse=True)
def by_default(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever names no connection gets the cluster."""
    use_for_default(monkeypatch, nodes.url)
    _forget_connections()
    yield
    monkeypatch.undo()
    _forget_connections()


def _forget_connections() -> None:
    setting_changed.send(sender=None, setting="CACHES", value=None, enter=True)


@pytest.fixture
def client(nodes: Nodes) -> Iterator[redis.RedisCluster]:
    with redis.RedisCluster("127.0.0.1", nodes.masters[0].port) as connected:
        yield connected


@pytest.fixture
def server_side(client: redis.RedisCluster) -> Observer:
    return Observer(client)  # type: ignore[arg-type]


@pytest.fixture
def own_side(server_side: Observer) -> Observer:
    """The cluster: no thread of another test sends it commands."""
    return server_side


@pytest.fixture
def listening(name: str, nodes: Nodes, settings: Any) -> Callable[[], bool]:
    """Whether this process listens, on whichever node, for the end of its holds."""
    settings.REDIS_LOCKS = {"PREFIX": name}
    channels = f"{name}:holders:*"
    return lambda: any(node.client.pubsub_channels(channels) for node in nodes.masters)
