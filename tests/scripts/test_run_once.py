"""The scripts of run_once, called by hand: safe repeats, and what a foreign key leads to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from redis.exceptions import ResponseError

from redis_locks.run_once import scripts
from tests.scripts.bench import FOREIGN, WHO, Bench

KEPT = 5_000


class RunBench(Bench):
    """One job, worked on by hand."""

    @property
    def record(self) -> bytes:
        return f"{self.prefix}{{0}}:run:{self.name}".encode()

    def begin(self, token: str, *, most: int = 3, lease: int = 60_000) -> list[str]:
        return self.words(scripts.BEGIN, token, lease, WHO, "nobody", most, KEPT)

    def done(self, token: str, attempt: int = 1, result: str = "") -> bool:
        return self.words(scripts.DONE, token, attempt, KEPT, result) == ["1"]

    def fail(self, token: str, attempt: int = 1, error: str = "broken") -> bool:
        return self.words(scripts.FAIL, token, attempt, KEPT, error) == ["1"]

    def extend(self, token: str, lease: int) -> list[str]:
        return self.words(scripts.EXTEND, token, lease)

    def status(self) -> list[str]:
        return self.words(scripts.STATUS, "me")

    def put_foreign(self, key: str) -> bytes:
        if key != "record":
            return super().put_foreign(key)
        self.client.sadd(self.record, *FOREIGN)
        self._foreign.add(self.record)
        return self.record

    def known(self) -> dict[bytes, bytes]:
        return self.client.hgetall(self.record)


@pytest.fixture
def bench(client: redis.Redis, name: str) -> Iterator[RunBench]:
    made = RunBench(client, name)
    yield made
    made.close()
    assert [] == made.keys_without_expiry()


def test_a_token_whose_lease_ended_before_it_asked_again_keeps_its_attempt(bench: RunBench) -> None:
    first = bench.begin("a")
    bench.end_lease()
    again = bench.begin("a")
    assert first[:2] == again[:2]
    assert int(again[2]) > int(first[2])
    assert "a" == bench.holder()


def test_the_last_attempt_may_begin_twice_too(bench: RunBench) -> None:
    first = bench.begin("a", most=1)
    assert first == bench.begin("a", most=1)
    bench.end_lease()
    assert ["begun", "1"] == bench.begin("a", most=1)[:2]


def test_beginning_again_lengthens_the_lease_and_never_shortens_it(bench: RunBench) -> None:
    bench.begin("a", lease=60_000)
    bench.begin("a", lease=1_000)
    assert 50_000 < bench.lease_left()
    bench.begin("a", lease=90_000)
    assert 80_000 < bench.lease_left()


def test_begin_hands_a_free_lock_to_a_waiter_before_it_takes_it(bench: RunBench) -> None:
    bench.begin("a")
    bench.stand("b")
    bench.end_lease()
    assert "locked" == bench.begin("c")[0]
    assert "b" == bench.holder()


def test_whom_the_queue_made_the_holder_hands_an_exhausted_job_on(bench: RunBench) -> None:
    for token in "bc":
        bench.listen(token)
    bench.begin("a", most=1)
    bench.queue_up("b", "c")
    assert bench.fail("a")
    assert ["exhausted", "1", "broken"] == bench.begin("b", most=1)
    assert "c" == bench.holder()


@pytest.mark.parametrize("verdict", ["done", "fail"])
def test_a_repeated_verdict_does_not_touch_the_next_attempt(bench: RunBench, verdict: str) -> None:
    bench.begin("a")
    assert bench.fail("a")
    bench.begin("b")
    before = bench.known()
    assert not getattr(bench, verdict)("a")
    assert before == bench.known()
    assert "b" == bench.holder()


def test_extending_without_a_record_extends_the_hold(bench: RunBench) -> None:
    bench.begin("a", lease=1_000)
    bench.client.delete(bench.record)
    assert "1" == bench.extend("a", 60_000)[0]
    assert 50_000 < bench.lease_left()


def test_a_dead_attempt_does_not_pass_the_error_of_the_one_before_on(bench: RunBench) -> None:
    bench.begin("a")
    bench.fail("a")
    bench.begin("b")
    bench.end_lease()
    assert "" == bench.begin("c")[3]
    bench.end_lease()
    assert ["exhausted", "3", ""] == bench.begin("d")


@pytest.mark.parametrize("key", ["record", "lock", "index"])
def test_a_foreign_key_stops_the_beginning_while_nobody_holds(bench: RunBench, key: str) -> None:
    foreign = bench.put_foreign(key)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        bench.begin("a")
    assert bench.is_untouched(foreign)
    if key != "lock":
        assert bench.holder() is None
    if key != "record":
        assert {} == bench.known()
