"""A thousand threads of one process want one lock."""

from __future__ import annotations

import threading

import pytest
from django.test import override_settings

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, Observer

THREADS, TIMES = 1000, 3


@pytest.mark.verdict
@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_thousand_threads_have_it_one_after_the_other(
    private_server: EmbeddedServer, name: str
) -> None:
    fences: list[int] = []
    inside = threading.Semaphore()
    overlaps: list[int] = []

    def work() -> None:
        for _ in range(TIMES):
            with lock as hold:
                if inside.acquire(blocking=False):
                    fences.append(hold.fencing_token)
                    inside.release()
                else:
                    overlaps.append(hold.fencing_token)

    with override_settings(REDIS_LOCKS={"CONNECTION": private_server.url}):
        lock = Lock(name, wait=4 * PATIENCE, lease=4 * PATIENCE)
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [] == overlaps
    assert THREADS * TIMES == len(fences)
    assert sorted(set(fences)) == fences
    with private_server.client() as client:
        assert set() == Observer(client).left_of(name)
