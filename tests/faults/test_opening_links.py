"""Many tasks of one loop want a connection that is yet to be opened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_locks import Lock, LockBackendError, run_once
from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.support.world import PATIENCE, Tasks, until

EACH = 0.005
"""Seconds between two tasks."""


@pytest.mark.parametrize("kind", ["read", "run_once"])
def test_a_link_for_large_replies_opens_while_tasks_keep_coming(
    name: str, proxy: Proxy, kind: str
) -> None:
    """Each round trip takes longer than the next task takes to come."""

    async def acquired(name: str) -> None:
        lock = Lock(name, using=proxy.url, read=[("GET", "x")], wait=PATIENCE)
        job = run_once(name, using=proxy.url)
        hold = await (lock.aacquire() if kind == "read" else job.aacquire())
        assert hold
        await hold.arelease()

    async def main() -> None:
        async with Lock(name, using=proxy.url):
            proxy.delay = 4 * EACH
        tasks: list[asyncio.Task[None]] = []
        while not any(task.done() for task in tasks):
            assert len(tasks) < 2 / EACH, "nobody got through"
            tasks.append(asyncio.create_task(acquired(f"{name}:{len(tasks)}")))
            await asyncio.sleep(EACH)
        proxy.delay = 0
        await asyncio.gather(*tasks)

    asyncio.run(main())


@pytest.mark.parametrize(
    "options",
    [{}, {"read": [("GET", "x")]}, {"crash_release": True}],
    ids=["shared", "for large replies", "that listens"],
)
def test_tasks_share_the_failure_of_one_attempt_to_connect(
    name: str, proxy: Proxy, options: dict[str, Any]
) -> None:
    """A server that does not answer makes each of them wait for one timeout."""
    url = f"{proxy.url}?socket_connect_timeout=0.4&socket_timeout=0.4"

    async def failed(number: int) -> bool:
        with pytest.raises(LockBackendError):
            await Lock(f"{name}:{number}", using=url, **options).aacquire(wait=0)
        return True

    async def main() -> None:
        if options:
            async with Lock(name, using=url):
                pass
        before = proxy.taken
        proxy.part()
        assert all(await asyncio.gather(*map(failed, range(20))))
        assert before + 1 == proxy.taken

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_connects_leaves_the_others_their_connection(
    name: str, proxy: Proxy
) -> None:
    async def acquired(number: int) -> None:
        async with Lock(f"{name}:{number}", using=proxy.url):
            pass

    async def main() -> None:
        proxy.hold_back()
        first, *others = (asyncio.create_task(acquired(number)) for number in range(3))
        await asyncio.to_thread(until, lambda: proxy.held_back)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        proxy.let_go()
        await asyncio.gather(*others)
        assert 1 == proxy.taken

    asyncio.run(main())


def test_an_event_loop_turns_while_another_task_begins_to_listen(
    tasks: Tasks, name: str, proxy: Proxy
) -> None:
    """A task that is to listen, too, does not wait for that in the loop."""

    def locked(number: int) -> Lock:
        return Lock(
            f"{name}:{number}", using=f"{proxy.url}?socket_connect_timeout=60", crash_release=True
        )

    proxy.hold_back()
    first = tasks.start(tasks.acquire, locked(1))
    until(lambda: proxy.held_back)
    second = tasks.start(tasks.acquire, locked(2))
    try:
        tasks.submit(asyncio.sleep(0)).result(PATIENCE)
    finally:
        proxy.let_go()
    for acquired in (first, second):
        hold = acquired.result(PATIENCE)
        assert hold
        tasks.release(hold)


def test_each_task_gets_an_error_of_its_own(name: str, private_server: EmbeddedServer) -> None:
    """Whoever catches one may add to it."""
    with private_server.client() as client:
        client.config_set("requirepass", "secret")

    async def main() -> list[Any]:
        asked = (Lock(f"{name}:{number}", using=private_server.url).aacquire() for number in (1, 2))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second = asyncio.run(main())
    assert isinstance(first, LockBackendError)
    assert str(first) == str(second)
    assert first is not second
