"""Where the watched keys live."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from redis_locks.testing.server import EmbeddedServer
from tests.faults.sentinels import Watched
from tests.optimistic.sides import Adding, Pipe, Side
from tests.support.optimistic import source_of

DJANGO = "django.core.cache.backends.redis.RedisCache"
PACKAGE = "django_redis.cache.RedisCache"


async def no_body(pipe: Pipe) -> None: ...


def reading(key: str) -> Any:
    async def body(pipe: Pipe) -> Any:
        return await pipe.read("get", key)

    return body


def test_an_url_names_its_server(
    private_server: EmbeddedServer, side: Side, client: redis.Redis, name: str
) -> None:
    side.run(Adding(name), name, using=private_server.url)
    assert not client.exists(name)
    with private_server.client() as there:
        assert b"1" == there.get(name)


def test_a_client_names_its_server_and_lends_its_options(
    private_server: EmbeddedServer, side: Side, name: str
) -> None:
    with private_server.client(decode_responses=True, max_connections=1) as there:
        there.set(name, "text")
        assert "text" == side.run(reading(name), name, using=there)
        assert there.connection_pool.connection_kwargs["decode_responses"]


def test_the_lock_of_a_client_lives_at_the_connection_of_the_settings(
    private_server: EmbeddedServer, side: Side, client: redis.Redis, name: str
) -> None:
    with private_server.client() as there:
        body = Adding(name, 1, lambda attempt: there.incr(name) if attempt < 2 else None)
        side.run(body, name, using=there, escalate_to=name, escalate_after=1)
        assert not there.exists(f"redis_locks{{0}}:lock:{name}")
    assert client.exists(f"redis_locks{{0}}:lock:{name}")


def test_replies_are_decoded_as_the_named_client_decodes_them(
    side: Side, client: redis.Redis, name: str
) -> None:
    client.set(name, "text")
    assert b"text" == side.run(reading(name), name, using="tests.contract.clients.plain")
    decoding = "tests.contract.clients.decoding"
    assert "text" == side.run(reading(name), name, using=decoding)
    first = side.run(Adding(f"{name}:sum"), name, using=decoding, operation_id=name)
    assert first == side.run(Adding(f"{name}:sum"), name, using=decoding, operation_id=name)
    side.run(Adding(f"{name}:sum"), name, using=decoding, escalate_to=name)
    assert name in [rate.key for rate in side.conflicts(using=decoding, limit=1000)]


def test_a_source_is_made_once_and_forgotten_with_the_settings() -> None:
    found = source_of("redis://h:1")
    assert found is source_of("redis://h:1")
    with override_settings(REDIS_LOCKS={}):
        assert found is not source_of("redis://h:1")


@pytest.mark.long
def test_a_primary_that_sentinels_watch_is_followed(side: Side, name: str) -> None:
    with Watched(sentinels=1, down_after_ms=60_000) as watched:
        assert 1 == side.run(Adding(name), name, using=watched.url)
        watched.demote()
        assert 2 == side.run(Adding(name), name, using=watched.url)


def test_what_names_no_server_is_refused(side: Side, name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="no cache 'nowhere'"):
        side.run(no_body, name, using="nowhere")
    with pytest.raises(TypeError, match="using must be"):
        side.run(no_body, name, using=7)
    replicas = redis.sentinel.Sentinel([("127.0.0.1", 1)]).slave_for("bank")
    with pytest.raises(ImproperlyConfigured, match="master_for"):
        side.run(no_body, name, using=replicas)


def test_more_transactions_at_once_than_the_clients_pool_has_connections(
    redis_server: EmbeddedServer, side: Side, name: str
) -> None:
    """One inside the other: the outer one keeps its connection meanwhile."""
    if side.kind == "async":
        pytest.skip("the inner one would block the loop that runs it")
    with redis_server.client(max_connections=1) as small:
        inner = Adding(f"{name}:inner")
        outer = Adding(name, 1, lambda _: side.run(inner, f"{name}:inner", using=small))
        assert 1 == side.run(outer, name, using=small)


@pytest.mark.parametrize("backend", [DJANGO, PACKAGE])
def test_without_using_a_cache_in_another_database_is_a_refusal_that_names_both(
    private_server: EmbeddedServer,
    redis_server: EmbeddedServer,
    side: Side,
    name: str,
    backend: str,
) -> None:
    caches = {"default": {"BACKEND": backend, "LOCATION": private_server.url}}
    with override_settings(CACHES=caches, REDIS_LOCKS={"CONNECTION": redis_server.url}):
        for ask in (lambda: side.run(Adding(name), name), side.conflicts):
            with pytest.raises(ImproperlyConfigured, match="using='default'") as said:
                ask()
            assert redis_server.url.partition("://")[2].rpartition("/")[0] in str(said.value)
        assert 1 == side.run(Adding(name), name, using="default")
        with private_server.client() as there:
            assert b"1" == there.get(name)


def test_without_using_caches_of_the_same_database_or_none_on_redis_leave_no_doubt(
    redis_server: EmbeddedServer, side: Side, client: redis.Redis, name: str
) -> None:
    local = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    same = {"BACKEND": PACKAGE, "LOCATION": redis_server.url}
    connection = {"CONNECTION": redis_server.url}
    with override_settings(CACHES={"default": local, "more": same}, REDIS_LOCKS=connection):
        side.run(Adding(name), name)
    assert b"1" == client.get(name)
