"""What a client is told holds for the connections of locks, too, or is refused."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from time import monotonic

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from redis_locks import Lock, LockBackendError
from tests.support.world import Tasks, World


class Tunnel(redis.Connection):
    """Connections that go another way."""


def tunnelled() -> redis.Redis:
    return redis.Redis.from_pool(redis.ConnectionPool(connection_class=Tunnel))


def test_tasks_do_not_go_round_the_connections_of_a_client(tasks: Tasks) -> None:
    with pytest.raises(LockBackendError, match=r"Tunnel has no async twin"):
        tasks.acquire(Lock("tunnelled", using=f"{__name__}.tunnelled"))


def __getattr__(name: str) -> Callable[[], redis.Redis]:
    """What makes a client of an address of its own: no breaker knows that nobody listens there."""
    if not name.startswith("trying_"):
        raise AttributeError(name)
    retry = Retry(ConstantBackoff(0.05), 6)
    return lambda: redis.Redis(unix_socket_path=f"/nonexistent/{name}", retry=retry)


@pytest.mark.parametrize(
    ("wait", "least", "most"), [(20, 0.3, 5), (0.15, 0.15, 0.29), (0, 0, 0.25)]
)
def test_while_nobody_listens_the_client_s_retry_counts_within_the_wait(
    world: World, wait: float, least: float, most: float
) -> None:
    lock = Lock("trying", using=f"{__name__}.trying_{uuid.uuid4().hex}")
    began = monotonic()
    with pytest.raises(LockBackendError, match="cannot be reached"):
        world.acquire(lock, wait=wait)
    assert least <= monotonic() - began < most + 1
