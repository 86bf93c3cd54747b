from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from tests.cluster.nodes import Nodes
from tests.support.world import Tasks, Threads, World

PARTITIONS = 12


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """Three masters, shared by the tests of this process."""
    with Nodes() as made:
        yield made


@pytest.fixture(params=[Threads, Tasks], ids=["blocking", "async"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The test runs twice, with no other server than the cluster."""
    made: World = request.param()
    yield made
    made.close()


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    """Both worlds at once, because a cluster takes its time to start."""
    made: list[World] = [Threads(), Tasks()]
    yield made
    for world in made:
        world.close()


@pytest.fixture
def on_nodes(nodes: Nodes, name: str) -> Iterator[Nodes]:
    """Locks are on the cluster, spread over partitions of this test alone."""
    entries = {"CONNECTION": nodes.url, "PREFIX": name, "PARTITIONS": PARTITIONS}
    with override_settings(REDIS_LOCKS=entries):
        yield nodes
