"""Where locks work with less: no right to publish, a cluster, Sentinel, no Django settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis
import redis.asyncio as aioredis
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.exceptions import ResponseError
from redis.sentinel import Sentinel

from redis_locks.compat import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.compat.conftest import Observer
from tests.compat.worlds import OURS, CompatAsync, CompatBlocking, World
from tests.ports import free_ports
from tests.support.children import run_script
from tests.support.compat import POLL, is_told, is_told_async
from tests.support.world import PATIENCE, until


@pytest.fixture
def user_without_channels(private_server: EmbeddedServer) -> Iterator[dict[str, str]]:
    """A user as ACL makes them by default: the keys of one application, no channels."""
    with private_server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "app", "on", ">pw", "~app:*", "+@all", "resetchannels"
        )
        yield {"username": "app", "password": "pw"}


def test_without_the_right_to_look_at_the_key_it_is_not_said_to_be_in_the_way(
    private_server: EmbeddedServer,
) -> None:
    with private_server.client() as client:
        rules = ("on", ">pw", "~*", "&*", "+@all", "-get")
        client.execute_command("ACL", "SETUSER", "app", *rules)
    user = {"username": "app", "password": "pw"}
    with (
        private_server.client(**user) as restricted,
        pytest.raises(ResponseError, match=r"executing the script|ACL failure"),
    ):
        Lock(restricted, "x").acquire(blocking=False)


def test_without_the_right_to_publish_waiters_ask_and_are_served_in_order(
    ours: World, private_server: EmbeddedServer, user_without_channels: dict[str, str]
) -> None:
    ours.url = private_server.url
    with private_server.client() as client:
        server_side = Observer(client, "app:x")
        holder, first = (
            ours.lock("app:x", client=ours.client(**user_without_channels), thread_local=False)
            for _ in range(2)
        )
        holder.acquire()
        turn = first.start("acquire")
        server_side.until_waiters(1)
        # This one may listen, but the holder may not tell it.
        second = ours.lock("app:x").start("acquire")
        server_side.until_waiters(2)
        server_side.until_heard(1)
        holder.release()
        assert turn.result(PATIENCE) is True
        assert not second.done()
        first.release()
        assert second.result(PATIENCE) is True


CLUSTERS = {CompatBlocking: redis.RedisCluster, CompatAsync: aioredis.RedisCluster}


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_on_a_cluster_waiters_ask_and_the_keys_share_a_slot(kind: type[World], name: str) -> None:
    port, bus = free_ports(2)
    options = ("--cluster-enabled", "yes", "--port", str(port), "--cluster-port", str(bus))
    with EmbeddedServer(options, use_environment=False) as server, server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: client.cluster("info")["cluster_state"] == "ok")
        with closing(kind(server.url)) as world:
            cluster = world.keep(CLUSTERS[kind](host="127.0.0.1", port=port))
            holder, waiter = (world.lock(name, client=cluster, thread_local=False) for _ in "12")
            assert holder.acquire()
            turn = waiter.start("acquire")
            until(lambda: client.zcard(f"{{{name}}}:redis_locks:line") == 1)
            holder.release()
            assert turn.result(PATIENCE) is True
            waiter.release()
        assert [] == client.keys("*")


def test_a_client_of_sentinel_waits_without_signals() -> None:
    sentinels = [("127.0.0.1", 1)]
    assert not is_told(Sentinel(sentinels).master_for("primary"))
    assert not is_told_async(AsyncSentinel(sentinels).master_for("primary"))


WITHOUT_SETTINGS = """
import sys, redis, redis_locks.compat as compat
client = redis.Redis.from_url(sys.argv[1])
with client.lock(sys.argv[2], lock_class=compat.Lock):
    print(client.lock(sys.argv[2], lock_class=compat.Lock).acquire(blocking_timeout=0.2))
from django.conf import settings
print(settings.configured)
"""


def test_locks_need_no_django_settings(redis_server: EmbeddedServer, name: str) -> None:
    ran = run_script(WITHOUT_SETTINGS, redis_server.url, name, options=("-W", "error"))
    assert ("False\nFalse\n", "") == (ran.stdout, ran.stderr)


def test_the_first_waiter_s_poll_leaves_time_for_its_round_trip() -> None:
    assert POLL < 0.1
