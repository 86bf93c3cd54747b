"""A cloud's short-lived passwords: a credential provider renews them as connections are ended."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.test import override_settings

from redis_locks import Lock, LockBackendError
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, Observer, World, held

LEASE = 6.0
password = {"now": "first"}
socket = {"path": ""}


class Rotating(redis.CredentialProvider):
    """Stands for a provider of IAM or Entra tokens: asked before each connection."""

    def get_credentials(self) -> tuple[str, str]:
        return "app", password["now"]


def make_client() -> redis.Redis:
    return redis.Redis(unix_socket_path=socket["path"], credential_provider=Rotating())


def rotate(admin: redis.Redis, to: str) -> None:
    """Let only the new password in, and end all the user's connections.

    A cloud does so when a token ends.
    """
    password["now"] = to
    admin.execute_command("ACL", "SETUSER", "app", "reset", "on", f">{to}", "~*", "&*", "+@all")
    admin.execute_command("CLIENT", "KILL", "USER", "app")


@pytest.fixture
def admin(own_server: EmbeddedServer) -> Any:
    socket["path"] = own_server.url.removeprefix("unix://")
    with own_server.client() as client:
        rotate(client, "first")
        yield client


def test_a_hold_is_kept_and_a_waiter_is_served_through_rotations(
    admin: redis.Redis, world: World, name: str
) -> None:
    server_side = Observer(admin)
    with override_settings(REDIS_LOCKS={"CONNECTION": f"{__name__}.make_client"}):
        lock = Lock(name, lease=LEASE, wait=PATIENCE)
        hold = held(world, lock)
        waiter = world.start(world.acquire, lock)
        server_side.until_waiters(name, 1)
        for number in range(3):
            rotate(admin, f"password {number}")
            world.extend(hold, LEASE)
            assert not hold.is_lost
            server_side.until_waiters(name, 1)
        world.release(hold)
        successor = waiter.result(PATIENCE)
        assert successor.fencing_token > hold.fencing_token
        world.release(successor)


def test_without_the_new_password_no_lock_is_had(
    admin: redis.Redis, world: World, name: str
) -> None:
    """The connections of the test above were let in for their password, not kept from before."""
    with override_settings(REDIS_LOCKS={"CONNECTION": f"{__name__}.make_client"}):
        rotate(admin, "new")
        password["now"] = "old"
        with pytest.raises(LockBackendError, match="invalid username-password pair"):
            world.acquire(Lock(name, wait=0))
