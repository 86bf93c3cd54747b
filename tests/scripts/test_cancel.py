"""A cancelled wait stays cancelled, whatever its waiter heard and wherever it asks next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_locks import scripts
from tests.scripts.bench import FOR_EVER, Bench

MEANWHILE: dict[str, Callable[[Bench], object]] = {
    "nothing": lambda bench: None,
    "a release": lambda bench: bench.release("h"),
    "a deletion": lambda bench: bench.client.delete(bench.keys.lock),
}


@pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:1"])
@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
def test_a_cancelled_waiter_that_asks_again_neither_holds_nor_waits(
    bench: Bench, mode: str, meanwhile: Callable[[Bench], object]
) -> None:
    bench.acquire("h")
    bench.queue_up("w", mode=mode)
    assert ["1"] == bench.words(scripts.CANCEL, "o", "w")
    meanwhile(bench)
    before = bench.all_keys()
    for wait in (0, 5000, FOR_EVER):
        assert ["3"] == bench.acquire("w", mode=mode, wait=wait)
    assert [] == bench.queued()
    assert "w" not in bench.holders()
    assert before == bench.all_keys()
    assert bench.give_up("w", mode=mode)  # as its process does then


def test_a_wait_is_cancelled_by_one_cancellation_only(bench: Bench) -> None:
    bench.acquire("h")
    bench.queue_up("w")
    assert ["1"] == bench.words(scripts.CANCEL, "o", "w")
    assert ["1"] == bench.words(scripts.CANCEL, "o", "w")  # its reply was lost
    assert ["0"] == bench.words(scripts.CANCEL, "another", "w")


def test_a_cancellation_that_came_too_late_is_none(bench: Bench) -> None:
    bench.acquire("h")
    heard = bench.stand("w")
    bench.release("h")
    assert bench.heard(heard)
    assert ["0"] == bench.words(scripts.CANCEL, "o", "w")
    assert "1" == bench.acquire("w", wait=FOR_EVER)[0]
