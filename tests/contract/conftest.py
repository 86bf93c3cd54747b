from __future__ import annotations

import pytest

from redis_locks import Hold, Lock
from tests.support.fixtures import (
    interrupted_downgrade,
    listening,
    own_side,
    server_side,
    tasks,
    world,
)
from tests.support.world import World, held


@pytest.fixture
def hold(world: World, name: str) -> Hold:
    """A party of this world holds the lock."""
    return held(world, Lock(name))
