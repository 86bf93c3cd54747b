from __future__ import annotations

import pytest
import redis

from tests.contract.world import Observer


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)
