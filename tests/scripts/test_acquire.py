from __future__ import annotations

import pytest

from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.support import stored


def test_a_free_lock_is_granted_with_its_lease_and_claim(bench: Bench) -> None:
    granted, fence, now = bench.acquire("a", lease=5000, listener="here")
    assert "1" == granted
    assert f"{fence} {now} exclusive 5000 here 0 1 {WHO}" == bench.holder_claim()
    assert 4000 < bench.lease_left() <= 5000


def test_a_free_lock_is_one_key_and_a_name_in_the_index(bench: Bench) -> None:
    bench.acquire("a", wait=FOR_EVER)
    assert {bench.keys.lock, bench.index_key} == bench.all_keys()
    assert [] == bench.queued()


def test_a_waiter_that_asks_again_waits_as_long_from_then_on(bench: Bench) -> None:
    bench.acquire("a")
    since = int(bench.acquire("b", wait=5000)[1])
    now = int(bench.acquire("b", wait=7000)[1])
    claim = bench.inspect()[4][1].split(b" ")
    assert [since, now + 7000 - since] == [int(claim[1]), int(claim[5])]


def test_a_waiter_does_not_wait_for_ever_because_the_clock_stepped_back(bench: Bench) -> None:
    bench.acquire("a")
    now = int(bench.acquire("b", wait=5000)[1])
    later = f"0 {now + 60_000} exclusive 60000 nobody 5000 1 {WHO}"
    stored.set_claim_of_waiter(bench.client, bench.keys.lock, "b", later)
    bench.acquire("b", wait=5000)
    assert later.replace(" 5000 ", " 1 ").encode() == bench.inspect()[4][1]


def test_a_repeated_acquire_extends_its_lease_but_never_shortens_it(bench: Bench) -> None:
    bench.acquire("a", lease=5000)
    bench.acquire("a", lease=60_000)
    assert bench.lease_left() > 50_000
    bench.acquire("a", lease=5000)
    assert bench.lease_left() > 50_000


def test_a_repeated_acquire_of_a_waiter_keeps_its_place_and_its_time(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("b", "c")
    since = bench.inspect()[4][1].split(b" ")[1]
    _pass_a_millisecond(bench)
    bench.queue_up("b")
    assert ["b", "c"] == bench.queued()
    assert since == bench.inspect()[4][1].split(b" ")[1]


def test_a_repeated_acquire_of_a_waiter_listens_where_it_listens_now(bench: Bench) -> None:
    bench.acquire("a")
    bench.acquire("b", wait=FOR_EVER, listener="old")
    bench.acquire("b", wait=FOR_EVER, listener="new")
    assert b"new" == bench.inspect()[4][1].split(b" ")[4]


def test_a_repeated_acquire_renews_a_place_that_is_about_to_expire(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("b")
    stored.expire_soon(bench.client, bench.keys.lock, 1000)
    bench.queue_up("b")
    assert bench.client.pttl(bench.keys.lock) > 6000


def test_a_place_that_somebody_deleted_is_skipped(bench: Bench) -> None:
    bench.acquire("a")
    heard = bench.listen("c")
    bench.queue_up("b", "c")
    stored.drop_place(bench.client, bench.keys.lock, "b")
    bench.end_lease()
    assert "0" == bench.acquire("d")[0]
    assert bench.heard(heard)
    assert "c" == bench.holder()
    bench.release("c")
    assert "1" == bench.acquire("d")[0]


def test_fencing_tokens_are_the_servers_time_in_microseconds(bench: Bench) -> None:
    seconds, microseconds = bench.client.time()
    fence = int(bench.acquire("a")[1])
    assert 0 <= fence - (seconds * 1_000_000 + microseconds) < 60_000_000


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_the_lock_remembers_the_last_fencing_token(bench: Bench, mode: str) -> None:
    assert int(bench.acquire("a", mode=mode)[1]) == bench.last_fence()


def test_the_index_names_the_lock_until_the_lease_ends(bench: Bench) -> None:
    _, _, now = bench.acquire("a", lease=5000)
    assert int(now) + 5000 == bench.client.zscore(bench.index_key, bench.name)
    assert bench.client.pexpiretime(bench.index_key) > int(now) + 5000


def test_the_index_forgets_locks_whose_holders_died(bench: Bench) -> None:
    bench.client.zadd(bench.index_key, {"long ago": 1})
    bench.client.pexpire(bench.index_key, 30_000)
    bench.acquire("a", lease=60_000)
    assert [b"", bench.name.encode()] == bench.client.zrange(bench.index_key, 0, -1)


def _pass_a_millisecond(bench: Bench) -> None:
    seconds, microseconds = start = bench.client.time()
    while bench.client.time() <= (seconds, microseconds + 1000):
        assert bench.client.time()[0] - start[0] < 5
