"""A link to a cluster while a slot moves: who waits on the link, and who comes again later."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from redis_locks import scripts
from redis_locks.drivers import cluster_link
from redis_locks.drivers.base import LinkBroken, run_blocking
from redis_locks.drivers.cluster_link import ClusterLink
from redis_locks.drivers.refusals import NotNow
from redis_locks.values.keys import set_keys

KEYS = set_keys("locks", 0, ("a",))
CALL = (KEYS, ("token",))


class Channels(set[str]):
    def __contains__(self, _channel: object) -> bool:
        return True


class Node:
    """A cluster's one node, its driver and its link: it refuses some calls, as a slot moves."""

    listener, broken, channels = "listener", False, Channels()

    def __init__(self, refusals: float) -> None:
        self.slots = self
        self.now = 100.0
        self._refusals = refusals

    async def owner(self, _slot: int) -> Any:
        return ("127.0.0.1", 7000)

    def driver(self, _address: object = None) -> Node:
        return self

    any_driver = driver

    async def checkout(self) -> Node:
        return self

    def answered(self, _address: object) -> None: ...

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def call(self, *_: object) -> list[Any]:
        if self._refusals:
            self._refusals -= 1
            raise NotNow("TRYAGAIN")
        return [b"done"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    def called(node: Node, *, waits: bool = False) -> list[Any]:
        monkeypatch.setattr(cluster_link, "monotonic", lambda: node.now)
        link: Any = ClusterLink(node, "")  # type: ignore[arg-type]
        if waits:
            run_blocking(link.subscribe(KEYS))
        return run_blocking(link.call(scripts.RELEASE, CALL))  # type: ignore[no-any-return]

    return called


def test_a_call_is_repeated_until_the_slot_has_moved(call: Any) -> None:
    assert [b"done"] == call(Node(refusals=5))


def test_a_call_gives_up_when_its_patience_ends(call: Any) -> None:
    node = Node(refusals=inf)
    with pytest.raises(LinkBroken):
        call(node)
    assert 100.9 < node.now < 101


def test_a_waiter_s_question_is_not_repeated_here(call: Any) -> None:
    with pytest.raises(LinkBroken):
        call(Node(refusals=1), waits=True)
