"""Which server a connection names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
import redis
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

from tests.support.connections import Endpoint, resolve
from tests.support.interrupts import interrupt
from tests.support.world import PATIENCE, Threads

PACKAGE = "django_redis.cache.RedisCache"
DJANGO = "django.core.cache.backends.redis.RedisCache"

calls: list[int] = []


def counted_client() -> redis.Redis:
    calls.append(1)
    return redis.Redis(host="counted", port=7000)


def failing_client() -> redis.Redis:
    raise KeyError("MY_ENV")


@pytest.fixture(autouse=True)
def _nothing_resolved_yet() -> Iterator[None]:
    calls.clear()
    with override_settings(REDIS_LOCKS={}):
        yield


def with_cache(**cache: Any) -> override_settings:
    return override_settings(
        CACHES={"default": {"BACKEND": PACKAGE, "LOCATION": "redis://d"}, "c": cache}
    )


@pytest.mark.parametrize("backend", [PACKAGE, DJANGO])
def test_an_empty_location_is_named_with_its_value(backend: str) -> None:
    with (
        with_cache(BACKEND=backend, LOCATION=""),
        pytest.raises(ImproperlyConfigured, match=r"CACHES\['c'\]\['LOCATION'\] is ''"),
    ):
        resolve("c")


@pytest.mark.parametrize("backend", [PACKAGE, DJANGO])
def test_an_alias_gives_the_server_it_writes_to(backend: str) -> None:
    with with_cache(BACKEND=backend, LOCATION=["redis://:pw@primary:1/3", "redis://replica:2/3"]):
        assert resolve("c").description == "redis://primary:1/3"


def test_a_callable_is_called_once() -> None:
    spec = f"{__name__}.counted_client"
    assert resolve(spec) is resolve(spec)
    assert resolve(spec).description == "redis://counted:7000/0"
    assert calls == [1]


def test_an_interrupt_at_any_step_keeps_no_other_thread_from_connecting() -> None:
    for at in count(1):
        url = f"redis://server-{at}:6379/0"
        interrupted = interrupt(partial(resolve, url), at)
        assert url == Threads().start(resolve, url).result(PATIENCE).description
        if interrupted is None:
            assert at > 20
            return


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("nowhere", "no cache 'nowhere' in CACHES .there are: default"),
        ("http://host", "scheme 'http'"),
        ("redis+sentinel://host", r"not a usable URL.*looks like redis\+sentinel://"),
        ("redis+sentinel://a,,b/bank", "not a usable URL"),
        ("no.such.path", "cannot be imported"),
        (f"{__name__}.calls", "must be a callable"),
        (f"{__name__}.failing_client", "KeyError"),
        (f"{__name__}.replica_client", r"slave_for.*master_for"),
    ],
)
def test_what_is_no_server_is_refused(spec: str, text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=text):
        resolve(spec)


@pytest.mark.parametrize(
    "cache",
    [
        {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    ],
)
def test_a_cache_that_is_not_on_redis_is_refused(cache: dict[str, Any]) -> None:
    with (
        with_cache(**cache),
        pytest.raises(ImproperlyConfigured, match=r"CACHES\['c'\].*not on Redis"),
    ):
        resolve("c")


@pytest.mark.filterwarnings("ignore:.*ShardClient")
def test_a_cache_spread_over_servers_is_refused() -> None:
    options = {"CLIENT_CLASS": "django_redis.client.ShardClient"}
    with (
        with_cache(BACKEND=PACKAGE, LOCATION=["redis://a", "redis://b"], OPTIONS=options),
        pytest.raises(ImproperlyConfigured, match="several servers"),
    ):
        resolve("c")


@pytest.mark.parametrize(
    "url",
    [
        "redis://:pa/secret@host:12",
        "redis+sentinel://u:secret@h,g",
        "app:secret@cache.internal:6379",
    ],
)
def test_no_refusal_shows_a_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        resolve(url)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "description"),
    [
        ("redis+sentinel://u:pw@b:2,a:1/bank/3", "redis+sentinel://a:1,b:2/bank/3"),
        ("rediss+sentinel://h:1/the%20bank", "rediss+sentinel://h:1/the bank/0"),
        ("redis+sentinel://[::1]:5/bank", "redis+sentinel://::1:5/bank/0"),
    ],
)
def test_a_sentinel_url_names_the_sentinels_and_what_they_watch(url: str, description: str) -> None:
    assert description == resolve(url).description


def test_the_options_of_a_sentinel_url_are_the_primary_s_and_those_of_sentinels_have_a_prefix() -> (
    None
):
    endpoint = resolve(
        "rediss+sentinel://u:p%40w@h/bank/3?socket_timeout=3&ssl_cert_reqs=none"
        "&sentinel_username=s&sentinel_password=x%40y"
    )
    kwargs = endpoint.kwargs
    assert ("u", "p@w", 3) == (kwargs["username"], kwargs["password"], kwargs["db"])
    assert (3, "none") == (endpoint.reply_timeout, kwargs["ssl_cert_reqs"])
    assert endpoint.sentinels is not None
    asked = endpoint.sentinels._options
    assert ("s", "x@y") == (asked["username"], asked["password"])
    assert (True, "none") == (asked["ssl"], asked["ssl_cert_reqs"])


def test_a_client_that_goes_through_sentinel_is_followed() -> None:
    endpoint = resolve(f"{__name__}.sentinel_client")
    assert "redis+sentinel://127.0.0.1:1/bank/2" == endpoint.description
    assert "pw" == endpoint.kwargs["password"]


def test_a_cache_that_goes_through_sentinel_is_followed() -> None:
    options = {
        "CLIENT_CLASS": "django_redis.client.SentinelClient",
        "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
        "SENTINELS": [("one", 1), ("two", 2)],
        "SENTINEL_KWARGS": {"password": "theirs", "socket_timeout": 9},
        "PASSWORD": "ours",
    }
    with with_cache(BACKEND=PACKAGE, LOCATION="redis://bank/4", OPTIONS=options):
        endpoint = resolve("c")
    assert "redis+sentinel://one:1,two:2/bank/4" == endpoint.description
    assert "ours" == endpoint.kwargs["password"]
    assert endpoint.sentinels is not None
    asked = endpoint.sentinels._options
    # The next Sentinel knows as well: none is waited for as long as that.
    assert ("theirs", 1.0) == (asked["password"], asked["socket_timeout"])


def test_clients_of_the_same_primary_are_known_as_such_whatever_sentinel_answered_last() -> None:
    one, other = [("a", 1), ("b", 2)], [("b", 2), ("a", 1)]
    blocking = Sentinel(one).master_for("bank").connection_pool
    in_loop = AsyncSentinel(other).master_for("bank").connection_pool
    assert Endpoint.from_pool(blocking).description == Endpoint.from_pool(in_loop).description


def sentinel_client() -> redis.Redis:
    return Sentinel([("127.0.0.1", 1)]).master_for("bank", db=2, password="pw")  # noqa: S106 - nobody's


def replica_client() -> redis.Redis:
    return Sentinel([("127.0.0.1", 1)]).slave_for("bank")


def unusable() -> checks.CheckMessage:
    """What the system checks say of a connection that is not usable."""
    found = checks.run_checks(tags=["redis_locks"])
    (error,) = [each for each in found if each.id == "redis_locks.E004"]
    return error


@pytest.mark.parametrize(
    "url",
    [f"redis://h:6379/{path}" for path in ("one", "-1", "1x", "1/2", "?db=-1", "?db=", "1?db=2")]
    + [f"unix:///run/r.sock{path}" for path in ("?db=x", "?db=-1", "?db=", "/1")]
    + [f"redis+sentinel://h/bank{path}" for path in ("/x", "/-1", "/1/2", "?db=x", "/1?db=-1")]
    + [f"redis+cluster://h{path}" for path in ("/1", "/x", "?db=1", "?db=x", "?db=-1")],
)
def test_a_database_that_is_no_number_is_refused(url: str) -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": url}):
        error = unusable()
    assert "Check host, port, database" in error.msg


@pytest.mark.parametrize(
    "backend", ["django_redis.cache.RedisCache", "django.core.cache.backends.redis.RedisCache"]
)
def test_the_address_of_a_cache_names_its_database_by_a_number_too(backend: str) -> None:
    location = ["redis://h:6379/1", "redis://h:6379/one"]
    with override_settings(CACHES={"default": {"BACKEND": backend, "LOCATION": location}}):
        error = unusable()
    assert "Check its LOCATION" in error.msg
