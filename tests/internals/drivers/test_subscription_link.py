"""A connection that only listens is closed by the thread that listens on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from redis_locks.connections.resolution import resolve
from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.blocking import SubscriptionLink
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.exceptions import LockBackendError
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, until


@pytest.fixture
def link(redis_server: EmbeddedServer, name: str) -> Iterator[SubscriptionLink]:
    endpoint = resolve(redis_server.url)
    assert isinstance(endpoint, Endpoint)
    made = SubscriptionLink(endpoint, name)
    yield made
    made.close()


def is_closed(link: SubscriptionLink) -> bool:
    """Whether the number of its descriptor is free for another file."""
    return bool(link._socket.fileno() == -1)


def test_while_a_thread_listens_another_one_leaves_it_the_descriptor(
    link: SubscriptionLink, name: str, client: redis.Redis
) -> None:
    heard, go_on = threading.Event(), threading.Event()

    def hear(_: str) -> None:
        heard.set()
        assert go_on.wait(PATIENCE)

    with ThreadPoolExecutor() as pool:
        listener = pool.submit(link.deliver_messages, hear)
        try:
            client.publish(name, "x")
            assert heard.wait(PATIENCE)
            link.close()
            assert (True, False) == (link.broken, is_closed(link))
        finally:
            go_on.set()
        assert isinstance(listener.exception(PATIENCE), LinkBroken)
    assert is_closed(link)


def test_one_on_which_nobody_listens_is_closed_at_once(link: SubscriptionLink) -> None:
    link.close()
    assert is_closed(link)
    with pytest.raises(LinkBroken):
        link.deliver_messages(print)


def test_one_that_is_refused_its_channel_is_closed(
    private_server: EmbeddedServer, name: str
) -> None:
    with private_server.client() as client:
        client.acl_setuser("deaf", enabled=True, nopass=True, commands=["+@all", "-subscribe"])
        url = private_server.url
        endpoint = resolve(f"{url}{'&' if '?' in url else '?'}username=deaf&password=x")
        assert isinstance(endpoint, Endpoint)
        with pytest.raises(LockBackendError):
            SubscriptionLink(endpoint, name)
        until(lambda: all(each["user"] != "deaf" for each in client.client_list()))
