"""Locks over TLS: by URL and by alias, blocking and async; and what a wrong certificate does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from redis_locks import Lock, LockBackendError
from tests.optimistic.sides import Adding, Side
from tests.servers.tls import HOST, Certificates, TlsServer, with_own_tls, with_terminator
from tests.support import stored
from tests.support.children import in_a_child
from tests.support.world import Observer, Tasks, World, held, keys_of, until

DJANGO = "django.core.cache.backends.redis.RedisCache"
PACKAGE = "django_redis.cache.RedisCache"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=[with_terminator, with_own_tls], ids=["in front", "own"])
def tls(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[TlsServer]:
    with request.param(certificates) as found:
        if found is None:
            pytest.skip("this server was built without TLS")
        yield found


@pytest.fixture
def server_side(tls: TlsServer) -> Iterator[Observer]:
    with tls.server.client() as admin:
        yield Observer(admin)


made: list[Callable[[], redis.Redis]] = []
"""How the client is made that `client_with_tls` returns."""


def client_with_tls() -> redis.Redis:
    return made[-1]()


@pytest.fixture(params=["url", "client", DJANGO, PACKAGE])
def configured(request: pytest.FixtureRequest, tls: TlsServer) -> Iterator[None]:
    """Locks and, with an alias, the cache beside them, are reached over TLS."""
    options = tls.certificates.options()
    if request.param == "url":
        settings = {"REDIS_LOCKS": {"CONNECTION": tls.url()}}
    elif request.param == "client":
        # It has all options of TLS that redis-py knows, most as they are.
        made.append(partial(redis.Redis, HOST, tls.port, ssl=True, **options))  # type: ignore[arg-type]
        settings = {"REDIS_LOCKS": {"CONNECTION": f"{__name__}.client_with_tls"}}
    else:
        if request.param == PACKAGE:
            options = {"CONNECTION_POOL_KWARGS": options}  # type: ignore[dict-item]
        entry = {"BACKEND": request.param, "LOCATION": tls.bare_url(), "OPTIONS": options}
        settings = {"CACHES": {"default": entry}, "REDIS_LOCKS": {"CONNECTION": "default"}}
    with override_settings(**settings):
        yield


def test_a_lock_is_waited_for_and_handed_off(
    world: World, configured: None, server_side: Observer, name: str
) -> None:
    hold = held(world, Lock(name))
    waiter = world.start(world.acquire, Lock(name, wait=20))
    server_side.until_waiters(name, 1)
    world.release(hold)
    world.release(waiter.result(20))
    assert set() == server_side.left_of(name)


def test_a_lease_is_renewed(world: World, tls: TlsServer, server_side: Observer, name: str) -> None:
    hold = held(world, Lock(name, lease=3, using=tls.url()))
    ends = stored.lease_ends_ms(server_side.client, keys_of(name).lock)
    until(lambda: stored.lease_ends_ms(server_side.client, keys_of(name).lock) > ends)
    world.release(hold)


def test_commands_and_replies_longer_than_a_tls_record_pass(
    world: World, tls: TlsServer, server_side: Observer, name: str
) -> None:
    server_side.client.set(f"data:{name}", b"x" * 200_000)
    many = [f"{name}:{number}:{'y' * 100}" for number in range(900)]
    hold = held(world, Lock(*many, using=tls.url(), read=[("GET", f"data:{name}")]))
    assert 200_000 == len(hold.read[0])
    world.release(hold)


def test_optimistic_transactions_pass_too(side: Side, configured: None, name: str) -> None:
    assert 1 == side.run(Adding(name), name, using=settings.REDIS_LOCKS["CONNECTION"])


def test_a_cancelled_wait_leaves_its_place_at_once(
    tls: TlsServer, tasks: Tasks, server_side: Observer, name: str
) -> None:
    lock = Lock(name, wait=20, using=tls.url())
    hold = held(tasks, lock)
    waiter = tasks.start(tasks.acquire, lock)
    server_side.until_waiters(name, 1)
    waiter.cancel()
    server_side.until_waiters(name, 0)
    tasks.release(hold)
    assert set() == server_side.left_of(name)


def test_a_fork_leaves_the_parent_s_encrypted_connection_alone(
    tls: TlsServer, server_side: Observer, name: str
) -> None:
    lock = Lock(name, using=tls.url())
    hold = lock.acquire()
    assert "LockNotHeld" == in_a_child(hold.release)
    hold.check()
    hold.release()
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("authority", "certificate verify failed: self-signed"),
        ("host", "certificate verify failed: .*localhost"),
        ("client", "cannot be reached: "),
        ("scheme", "cannot be reached: "),
    ],
)
def test_what_is_not_trusted_gets_no_lock(
    tls: TlsServer, name: str, tmp_path: Path, wrong: str, reason: str
) -> None:
    urls = {
        "authority": lambda: tls.url(ssl_ca_certs=Certificates(tmp_path).authority),
        "host": lambda: tls.url(host="localhost", ssl_check_hostname="true"),
        "client": lambda: f"{tls.bare_url()}?ssl_ca_certs={tls.certificates.authority}",
        "scheme": lambda: tls.bare_url(scheme="redis"),
    }
    with pytest.raises(LockBackendError, match=reason):
        Lock(name, using=urls[wrong](), wait=0).acquire()
