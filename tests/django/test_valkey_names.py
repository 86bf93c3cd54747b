"""Valkey by its own names: URLs, clients of valkey-py and the caches of its packages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from valkey.asyncio.sentinel import Sentinel as AsyncSentinel
from valkey.backoff import ConstantBackoff
from valkey.retry import Retry
from valkey.sentinel import Sentinel

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support.children import run_script
from tests.support.connections import resolve

socket = {"path": ""}


def blocking_client() -> valkey.Valkey:
    return valkey.Valkey(unix_socket_path=socket["path"], db=3, decode_responses=True)


def async_client() -> valkey.asyncio.Valkey:
    return valkey.asyncio.Valkey(unix_socket_path=socket["path"], db=3)


def async_client_of_redis_py() -> redis.asyncio.Redis:
    return redis.asyncio.Redis(unix_socket_path=socket["path"], db=3)


def patient_client() -> valkey.Valkey:
    retry = Retry(ConstantBackoff(2), 3)
    return valkey.Valkey.from_url("valkey://u:p@h:1/2", retry=retry)


def encrypted_client() -> valkey.Valkey:
    return valkey.Valkey("h", 1, ssl=True, ssl_ca_certs="/ca.pem")


def sentinel_client() -> Any:
    sentinel: Any = Sentinel([("a", 1), ("b", 2)])
    return sentinel.master_for("bank", db=4)


def async_sentinel_client() -> Any:
    return AsyncSentinel([("a", 1), ("b", 2)]).master_for("bank", db=4)


def replica_client() -> Any:
    sentinel: Any = Sentinel([("a", 1)])
    return sentinel.slave_for("bank")


class GlideClient:
    """Stands for a client of another kind."""


def other_client() -> GlideClient:
    return GlideClient()


@pytest.fixture(autouse=True)
def _nothing_resolved_yet(redis_server: EmbeddedServer) -> Iterator[None]:
    socket["path"] = redis_server.url.partition("://")[2].partition("?")[0]
    with override_settings(REDIS_LOCKS={}):
        yield


@pytest.mark.parametrize(
    ("url", "description"),
    [
        ("valkey://u:p@h:1/2", "redis://h:1/2"),
        ("valkeys://h:1/2", "rediss://h:1/2"),
        ("valkey+cluster://a:1,b:2", "redis+cluster://a:1,b:2"),
        ("valkeys+cluster://a:1,b:2", "rediss+cluster://a:1,b:2"),
        ("valkey+sentinel://a:1,b:2/bank/3", "redis+sentinel://a:1,b:2/bank/3"),
        ("valkeys+sentinel://a:1/bank", "rediss+sentinel://a:1/bank/0"),
    ],
)
def test_a_url_may_say_valkey_for_redis(url: str, description: str) -> None:
    assert resolve(url).description == description


@pytest.mark.parametrize("client", ["blocking_client", "async_client", "async_client_of_redis_py"])
def test_a_client_names_the_server(client: str, name: str) -> None:
    lock = Lock(name, using=f"{__name__}.{client}")
    with lock as hold:
        pass
    assert fence_in_a_loop(lock) > hold.fencing_token


def fence_in_a_loop(lock: Lock) -> int:
    async def fence() -> int:
        async with lock as hold:
            return hold.fencing_token

    return asyncio.run(fence())


def test_the_options_of_a_client_are_kept() -> None:
    endpoint = resolve(f"{__name__}.patient_client")
    assert endpoint.description == "redis://h:1/2"
    assert (endpoint.kwargs["username"], endpoint.kwargs["password"]) == ("u", "p")
    assert [endpoint.pause_after(failures) for failures in (1, 3, 4)] == [2.0, 2.0, None]
    encrypted = resolve(f"{__name__}.encrypted_client")
    assert encrypted.description == "rediss://h:1/0"
    assert encrypted.kwargs["ssl_ca_certs"] == "/ca.pem"


@pytest.mark.parametrize("client", ["sentinel_client", "async_sentinel_client"])
def test_a_client_that_goes_through_sentinel_is_followed(client: str) -> None:
    assert resolve(f"{__name__}.{client}").description == "redis+sentinel://a:1,b:2/bank/4"


@pytest.mark.parametrize(
    ("client", "advice"),
    [("replica_client", "master_for"), ("other_client", r"GlideClient.*valkey\.Valkey.*redis://")],
)
def test_a_refused_client_is_told_what_to_write(client: str, advice: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=advice):
        resolve(f"{__name__}.{client}")


@pytest.mark.parametrize(
    ("location", "description"),
    [
        ("valkey://:pw@h:1/2", "redis://h:1/2"),
        (["valkey://primary:1/3", "valkey://replica:2/3"], "redis://primary:1/3"),
    ],
)
def test_a_cache_of_django_valkey_names_the_server(location: Any, description: str) -> None:
    cache = {"BACKEND": "django_valkey.cache.ValkeyCache", "LOCATION": location}
    with override_settings(CACHES={"default": cache}):
        assert resolve("default").description == description


def test_a_cache_whose_adapter_gives_the_client_names_the_server() -> None:
    cache = {"BACKEND": f"{__name__}.AdapterCache", "LOCATION": "valkey://h:1/2"}
    with override_settings(CACHES={"default": cache}):
        assert resolve("default").description == "redis://h:1/2"


class AdapterCache:
    """A cache of the shape of django-cachex's, which wants Python 3.14."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        self.location = location

    @property
    def adapter(self) -> AdapterCache:
        return self

    def get_client(self, key: str | None = None, *, write: bool = False) -> Any:
        assert write
        return valkey.Valkey.from_url(self.location)


WITHOUT_PACKAGES = """
import sys
import django
from django.conf import settings

settings.configure(INSTALLED_APPS=["redis_locks"], REDIS_LOCKS={"CONNECTION": sys.argv[1]})
django.setup()
from redis_locks import redis_lock

with redis_lock("plain"):
    print(sorted({"django_redis", "valkey"} & set(sys.modules)))
"""


def test_a_url_imports_no_package_of_caches(redis_server: EmbeddedServer) -> None:
    done = run_script(WITHOUT_PACKAGES, redis_server.url)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
