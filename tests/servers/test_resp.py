"""Our own connections speak RESP3, whatever the protocol of the user's client."""

from __future__ import annotations

import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

import pytest
import redis
from django.core.cache import cache
from django.test import override_settings

from redis_locks import Lock, LockBackendError
from redis_locks.testing.server import EmbeddedServer
from tests.optimistic.sides import Adding, Side
from tests.support.world import Observer, World, held

DJANGO = "django.core.cache.backends.redis.RedisCache"
PACKAGE = "django_redis.cache.RedisCache"
PATIENT = {"LEASE": 60.0, "DEADLOCK_TIMEOUT": None}
"""On a slow machine, too, the holder renews nothing and the waiter looks for no deadlock meanwhile.
"""


def configured(server: EmbeddedServer, protocol: int, backend: str | None) -> Any:
    """Settings that ask for a protocol, in the URL or in the options of a cache."""
    url = f"{server.url}?protocol={protocol}"
    if backend is None:
        return override_settings(REDIS_LOCKS={"CONNECTION": url} | PATIENT)
    options = {"protocol": protocol}
    if backend == PACKAGE:
        options = {"CONNECTION_POOL_KWARGS": options}  # type: ignore[dict-item]
    cache = {"BACKEND": backend, "LOCATION": server.url, "OPTIONS": options}
    return override_settings(
        CACHES={"default": cache}, REDIS_LOCKS={"CONNECTION": "default"} | PATIENT
    )


@pytest.mark.parametrize("backend", [None, DJANGO, pytest.param(PACKAGE, marks=pytest.mark.ci)])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_wait_ends_with_a_message_whatever_protocol_the_user_s_client_speaks(
    world: World,
    private_server: EmbeddedServer,
    name: str,
    protocol: int,
    backend: str | None,
) -> None:
    with configured(private_server, protocol, backend), private_server.client() as client:
        hold = held(world, Lock(name))
        # With another lease, so that it waits at the server from the start.
        waiter = world.start(world.acquire, Lock(name, wait=20, lease=59))
        Observer(client).until_waiters(name, 1)
        before = scripts_run_at_last(client)
        world.release(hold)
        world.release(waiter.result(20))
        # The releases, and no question by the waiter: it was told.
        assert 2 == scripts_run(client) - before
        ours = {c["resp"] for c in client.client_list() if int(c["sub"])}
        assert {"3"} == ours


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("backend", [None, PACKAGE])
def test_what_runs_on_the_user_s_own_client_keeps_its_protocol(
    side: Side, redis_server: EmbeddedServer, name: str, protocol: int, backend: str | None
) -> None:
    with configured(redis_server, protocol, backend):
        assert 1 == side.run(Adding(name), name, operation_id=name)
        assert 1 == side.run(Adding(name), name, operation_id=name)
        if backend:
            cache.set(name, "kept")
            assert "kept" == cache.get(name)


def scripts_run_at_last(client: redis.Redis) -> int:
    """Count once nobody asks any more: a waiter that stands in line may have one more question."""
    before = scripts_run(client)
    while True:
        sleep(0.3)
        now = scripts_run(client)
        if now == before:
            return now
        before = now


def scripts_run(client: redis.Redis) -> int:
    """Count the scripts that ran.

    A server that does not know a script yet refuses it, and is sent its text.
    """
    stats = client.info("commandstats")
    ways = (stats.get(f"cmdstat_{way}", {}) for way in ("evalsha", "eval"))
    return sum(way.get("calls", 0) - way.get("failed_calls", 0) for way in ways)


class _OldServer(socketserver.StreamRequestHandler):
    """Answers as a server or a proxy that knows RESP2 only."""

    answer = b"-ERR unknown command 'HELLO'\r\n"

    def handle(self) -> None:
        while line := self.rfile.readline():
            if b"HELLO" in line.upper():
                self.wfile.write(self.answer)


class _CarelessServer(_OldServer):
    answer = b"+OK\r\n"


@contextmanager
def serving(handler: type[_OldServer]) -> Iterator[str]:
    # A short path: the name of a socket may have 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="rl-old-", dir="/tmp") as folder,
        socketserver.ThreadingUnixStreamServer(path := f"{folder}/s", handler) as server,
    ):
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"unix://{path}"
        server.shutdown()


NO_RESP3 = r"does not speak RESP3.*HELLO.*Use Redis 7\.0"


def test_a_server_without_resp3_is_a_clear_error(world: World, name: str) -> None:
    with serving(_OldServer) as url, pytest.raises(LockBackendError, match=NO_RESP3):
        world.acquire(Lock(name, using=url))


def test_a_server_that_answers_ok_to_everything_is_a_clear_error(name: str) -> None:
    with serving(_CarelessServer) as url, pytest.raises(LockBackendError, match=NO_RESP3):
        Lock(name, using=url).acquire()
