"""manage.py check: what it says about REDIS_LOCKS, without a server."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import redis
from django.core.checks import CheckMessage, run_checks
from django.core.checks import Warning as CheckWarning
from django.test import modify_settings, override_settings
from redis.sentinel import Sentinel

from tests.support.checks import check_servers, check_settings
from tests.support.connections import resolve


def called_too_early() -> redis.Redis:
    raise AssertionError("a check must not call it: it may connect")


def called_already() -> redis.Redis:
    return redis.Redis.from_url("redis://h/1")


class Special(redis.Redis):
    """Whose making may do anything."""

    def __init__(self, **options: Any) -> None:
        called_too_early()


made_by_redis_py = functools.partial(redis.Redis.from_url, "redis://h/1")
of_a_service = functools.partial(Sentinel([("h", 26379)]).master_for, "service", db=1)
of_a_cluster = functools.partial(redis.RedisCluster, host="h")
special = functools.partial(Special.from_url, "redis://h/1")


def ids(value: object) -> list[str | None]:
    with override_settings(REDIS_LOCKS=value):
        return [error.id for error in check_settings()]


@pytest.mark.parametrize(
    "value",
    [
        {"CONNECTION": "unix:///nonexistent/nobody-listens.sock"},
        {"CONNECTION": f"{__name__}.called_too_early"},
    ],
)
def test_right_settings_pass_offline(value: object) -> None:
    assert ids(value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["default"], ["redis_locks.E001"]),
        ({"LEESE": 5}, ["redis_locks.E002"]),
        ({"LEASE": 0, "WAIT": -1}, ["redis_locks.E003", "redis_locks.E003"]),
        ({"CONNECTION": 5}, ["redis_locks.E003"]),
        ({"CONNECTION": "no.such.path"}, ["redis_locks.E004"]),
    ],
)
def test_each_fault_has_its_id(value: object, expected: list[str]) -> None:
    assert sorted(filter(None, ids(value))) == expected


def test_every_fault_comes_with_a_hint() -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": "nowhere", "LEASE": 0, "X": 1}):
        assert all(error.hint for error in check_settings())


PACKAGE = "django_redis.cache.RedisCache"
DJANGO = "django.core.cache.backends.redis.RedisCache"
MEMORY = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}


def cache(location: str, backend: str = PACKAGE, **options: object) -> dict[str, Any]:
    return {"BACKEND": backend, "LOCATION": location, "OPTIONS": options}


def warnings(connection: str, **configured: dict[str, Any]) -> list[CheckMessage]:
    with override_settings(
        CACHES={"default": MEMORY, **configured}, REDIS_LOCKS={"CONNECTION": connection}
    ):
        found = check_servers()
    assert all(isinstance(warning, CheckWarning) and warning.hint for warning in found)
    return found


@pytest.mark.parametrize("backend", [PACKAGE, DJANGO])
@pytest.mark.parametrize(
    ("connection", "location"),
    [
        ("default", "redis://h/1"),
        ("redis://h/1", "redis://:secret@h:6379/1"),
        ("redis://localhost", "redis://127.0.0.1/0"),
    ],
)
def test_a_cache_whose_clear_removes_the_locks_is_a_warning(
    connection: str, location: str, backend: str
) -> None:
    (warning,) = warnings(connection, default=cache(location, backend))
    assert "redis_locks.W006" == warning.id
    assert "caches['default'].clear() would remove all locks" in warning.msg
    assert "secret" not in str(warning)


SHARDS = "django_redis.client.ShardClient"


@pytest.mark.filterwarnings("ignore:.*ShardClient")
def test_a_cache_on_several_servers_clears_each_of_them() -> None:
    shards = cache(["redis://g/1", "redis://h/1"], CLIENT_CLASS=SHARDS)  # type: ignore[arg-type]
    for server in ("g", "h"):
        (warning,) = warnings(f"redis://{server}/1", shards=shards)
        assert "caches['shards'].clear() would remove all locks" in warning.msg
    assert [] == warnings("redis://h/2", shards=shards)


@pytest.mark.parametrize(
    "location", ["redis://h/1", "redis://h/0"], ids=["the locks' database", "another"]
)
def test_a_callable_of_redis_py_itself_is_called_as_it_connects_to_nothing(location: str) -> None:
    found = warnings(f"{__name__}.made_by_redis_py", one=cache(location))
    assert (["redis_locks.W006"] if location.endswith("1") else []) == [each.id for each in found]


@pytest.mark.parametrize("name", ["of_a_service", "of_a_cluster", "special", "called_too_early"])
def test_nothing_is_said_of_a_server_that_only_other_callables_know(name: str) -> None:
    assert [] == warnings(f"{__name__}.{name}", one=cache("redis://h/1"))


def test_what_a_callable_gave_this_process_already_is_known() -> None:
    path = f"{__name__}.called_already"
    with override_settings(
        CACHES={"default": cache("redis://h/1")}, REDIS_LOCKS={"CONNECTION": path}
    ):
        assert [] == check_servers()
        resolve(path)
        assert ["redis_locks.W006"] == [each.id for each in check_servers()]


@pytest.mark.parametrize(
    ("connection", "location"),
    [
        ("redis://h/1", "redis://h/0"),
        ("redis://h/1", "redis://h:6380/1"),
        (f"{__name__}.called_too_early", "redis://h/0"),
        ("nowhere", "redis://h/0"),
    ],
)
def test_locks_with_a_database_of_their_own_are_fine(connection: str, location: str) -> None:
    assert [] == warnings(connection, own=cache("redis://h/7"), default=cache(location))


@pytest.mark.parametrize(
    "alias",
    [
        cache("redis://h/1", DJANGO, socket_timeout=None),
        # django-redis keeps one pool for each location.
        cache("redis://patient/1", CONNECTION_POOL_KWARGS={"socket_timeout": None}),
    ],
)
def test_a_client_that_waits_for_ever_is_a_warning(alias: dict[str, Any]) -> None:
    (warning,) = warnings("own", own=alias)
    assert "redis_locks.W007" == warning.id
    assert "socket_timeout" in str(warning.hint)


@pytest.mark.parametrize("options", [{}, {"SOCKET_TIMEOUT": 3}])
def test_a_client_with_a_timeout_is_fine(options: dict[str, Any]) -> None:
    assert [] == warnings("own", own=cache(f"redis://h/{len(options)}", **options))


class Tunnel(redis.Connection):
    """Connections that go another way."""


def greet(connection: object) -> None:
    raise AssertionError(connection)


queue_pool = redis.BlockingConnectionPool(host="h", db=1)
tunnel_pool = redis.ConnectionPool(host="h", db=1, connection_class=Tunnel)
bounded = functools.partial(redis.Redis, "h", db=1, max_connections=9)
queueing = functools.partial(redis.Redis, connection_pool=queue_pool)
greeting = functools.partial(redis.Redis, "h", db=1, redis_connect_func=greet)
tunnelled = functools.partial(redis.Redis, connection_pool=tunnel_pool)
stapled = functools.partial(redis.Redis, "h", db=1, ssl=True, ssl_validate_ocsp_stapled=True)
encrypted = functools.partial(redis.Redis, "h", db=1, ssl=True, ssl_check_hostname=False)


@pytest.mark.parametrize(
    ("client", "id_", "word"),
    [
        ("bounded", "W012", "max_connections=9"),
        ("queueing", "W012", "max_connections=50"),
        ("greeting", "W012", "redis_connect_func"),
        ("tunnelled", "W013", "Tunnel has no async twin"),
        ("stapled", "W013", "ssl_validate_ocsp_stapled"),
    ],
)
def test_what_locks_do_not_heed_of_a_client_is_a_warning(client: str, id_: str, word: str) -> None:
    (warning,) = warnings(f"{__name__}.{client}")
    assert f"redis_locks.{id_}" == warning.id
    assert word in warning.msg


@pytest.mark.parametrize("client", ["made_by_redis_py", "encrypted"])
def test_options_that_all_connections_take_are_fine(client: str) -> None:
    assert [] == warnings(f"{__name__}.{client}")


def test_replicas_of_a_cluster_are_an_error() -> None:
    for connection, found in (("redis+cluster://h", ["redis_locks.E009"]), ("redis://h/1", [])):
        with override_settings(REDIS_LOCKS={"CONNECTION": connection, "REPLICAS": 1}):
            assert found == [each.id for each in check_servers()]


def test_all_checks_are_part_of_manage_py_check() -> None:
    same = {"default": cache("redis://h/1", DJANGO, socket_timeout=None)}
    with override_settings(CACHES=same, REDIS_LOCKS={"CONNECTION": "default"}):
        found = [message.id for message in run_checks(tags=["redis_locks"])]
    assert {"redis_locks.W006", "redis_locks.W007"} <= set(found)


def test_a_deadline_without_its_middleware_is_a_warning() -> None:
    configured = {"REQUEST_DEADLINE": 5}
    assert ids(configured) == ["redis_locks.W008"]
    with modify_settings(MIDDLEWARE={"prepend": "redis_locks.middleware.request_deadline"}):
        assert ids(configured) == []
