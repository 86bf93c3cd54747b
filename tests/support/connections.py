"""From a setting to a server: endpoints, drivers and links, and the errors that links raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

from redis_locks.connections import resolution
from redis_locks.connections.backends import backend_for
from redis_locks.connections.resolution import resolve
from redis_locks.drivers import listener_thread
from redis_locks.drivers.asynchronous import AsyncDriver, AsyncLink
from redis_locks.drivers.base import Call, CutShort, LinkBroken, Unreachable, run_blocking
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.drivers.cluster_link import ClusterLink
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.sentinel import Sentinels
from redis_locks.drivers.sentinel_url import client_of_url
from redis_locks.scripts import Script, on_cluster
from redis_locks.testing.memory_backend import MemoryBackend, Outcome


def open_links(count: int) -> None:
    """Let the threads' pool have so many links, each with its own link for large replies."""
    driver = backend_for(None).driver
    with ExitStack() as stack:
        for _ in range(count):
            link = run_blocking(driver.checkout())
            stack.callback(driver.checkin, link)
            run_blocking(link.bulk())


def listening() -> AbstractContextManager[object]:
    """Keep the connection open in the block that tells of holds which others end.

    Otherwise a hold of some age opens it.
    """
    return run_blocking(backend_for(None).renewer.listening())


def stop_listening(url: str) -> None:
    """End the threads that listen to a server.

    They would go on for seconds, and log that the server has ended.
    """
    for thread in list(listener_thread._THREADS.values()):
        link: Any = thread._link
        endpoint = getattr(link, "endpoint", None)  # not of one that stands for a link
        if endpoint is not None and endpoint.description.startswith(url):
            thread.pins.clear()
            thread.close()


def drop_idle(using: str) -> None:
    """Close the connections of threads that are not in use."""
    backend_for(using).driver.drop_idle()


def keep_first_question(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], tuple[bytes, Sequence[bytes], Sequence[bytes | str]]]:
    """Break the connection to a cluster at the next acquire.

    Return a function that returns the EVAL that was not delivered.
    """
    plain: Any = ClusterLink.call
    kept: list[Any] = []

    async def call(
        link: ClusterLink, script: Script, call: Call, reads: Sequence[bytes] = ()
    ) -> list[Any]:
        if script.name == "acquire" and not kept:
            kept.append((on_cluster(script).text, *call))
            raise LinkBroken("the connection was cut")
        return await plain(link, script, call, reads)

    monkeypatch.setattr(ClusterLink, "call", call)
    return lambda: kept[0]


def record_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many seconds each task pauses, from here on, before it asks the server again."""
    plain, pauses = AsyncDriver.sleep, []

    async def noted(driver: AsyncDriver, seconds: float) -> None:
        pauses.append(seconds)
        await plain(driver, seconds)

    monkeypatch.setattr(AsyncDriver, "sleep", noted)
    return pauses


def refuse_to_listen(monkeypatch: pytest.MonkeyPatch, tried: Callable[[], object]) -> None:
    """Let no new driver listen for what operators end; call `tried` when one would."""

    def refuse(_: object) -> None:
        tried()
        msg = "the credential provider has no password"
        raise ValueError(msg)

    monkeypatch.setattr(BlockingDriver, "open_subscription", refuse)


def server_of(hold: Any) -> str:
    """The address of the server that granted `hold`."""
    description: str = hold.backend.description
    return description


def use_for_default(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Locks that name no connection go to `url`, once connections are forgotten."""
    build: Callable[..., Any] = resolution._build
    monkeypatch.setattr(
        resolution, "_build", lambda spec, *rest: build(url if spec == "default" else spec, *rest)
    )


def on_receive(monkeypatch: pytest.MonkeyPatch, kind: str, handler: Callable[..., Any]) -> None:
    """Have `handler(plain, token, timeout)` listen; `kind` is "blocking" or "async"."""
    link: Any = {"blocking": BlockingLink, "async": AsyncLink}[kind]
    receive = link.receive

    async def listen(self: Any, token: str, timeout: float) -> Any:
        async def plain() -> Any:
            return await receive(self, token, timeout)

        return await handler(plain, token, timeout)

    monkeypatch.setattr(link, "receive", listen)


def count_calls_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls of a script threads send together, for each time that they do."""
    counts: list[int] = []
    call_many = BlockingLink.call_many

    async def counted(link: BlockingLink, script: Any, calls: Any) -> Any:
        counts.append(len(calls))
        return await call_many(link, script, calls)

    monkeypatch.setattr(BlockingLink, "call_many", counted)
    return counts


def subscribers(client: Any) -> set[str]:
    """The ids of the connections that listen to anything.

    One of another test may end at any time.
    """
    return {each["id"] for each in client.client_list(_type="pubsub")}


def count_packets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands threads send in each of their round trips."""
    counts: list[int] = []
    plain = BlockingLink.round_trip

    async def counted(link: BlockingLink, commands: bytes, number: int) -> Any:
        counts.append(number)
        return await plain(link, commands, number)

    monkeypatch.setattr(BlockingLink, "round_trip", counted)
    return counts


def sentinels_say(
    monkeypatch: pytest.MonkeyPatch, primaries: Callable[[], dict[str, dict[str, object]]]
) -> None:
    """Every Sentinel that is asked for its primaries says what `primaries` returns then."""

    async def ask(*_: object) -> dict[str, dict[str, object]]:
        return primaries()

    monkeypatch.setattr(Sentinels, "_ask", ask)
    monkeypatch.setattr(Sentinels, "_ask_in_loop", ask)
