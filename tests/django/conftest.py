from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from django.test import override_settings

from tests.contract.world import Observer


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


@pytest.fixture
def own_prefix(name: str) -> Iterator[None]:
    """No lock, holder or waiter of another test is listed."""
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        yield
