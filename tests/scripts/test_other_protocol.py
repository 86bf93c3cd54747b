"""A lock that another protocol's version used: refused while its leases last, then taken over."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.values.keys import set_keys
from tests.scripts.bench import FOR_EVER, WHO, Bench

FENCE = 9_000_000_000_000_000
ENDED, LASTS = 1, 8_000_000_000_000
"""When a lease ends, in ms."""

ENDS_NOW = """
local time = redis.call("TIME")
local ends = string.format("%%.0f", time[1] * 1000 + math.floor(time[2] / 1000))
redis.call("HSET", KEYS[2], "state", "2 0 %d anything", "holder", "theirs " .. ends)
redis.call("PEXPIRE", KEYS[2], 60000)
"""


def used_by_another_version(
    bench: Bench, *, shared_until: int, held_until: int, rest: str = "anything"
) -> None:
    """Leave what all versions share, and fields that look like ours, with another meaning."""
    state = f"2 {shared_until} {FENCE} {rest}"
    fields = {"state": state, "holder": f"theirs {held_until} anything", "key_share": 1}
    bench.client.hset(bench.keys.lock, mapping=fields)
    bench.client.pexpire(bench.keys.lock, 60_000)


@pytest.mark.parametrize(("shared_until", "held_until"), [(LASTS, ENDED), (ENDED, LASTS)])
@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize("wait", [0, FOR_EVER])
@pytest.mark.parametrize("rest", ["anything", "0 1 0 0 0", "0 0"])
def test_it_is_refused_and_stays_as_it_is_while_a_lease_lasts(
    bench: Bench, shared_until: int, held_until: int, mode: str, wait: int, rest: str
) -> None:
    used_by_another_version(bench, shared_until=shared_until, held_until=held_until, rest=rest)
    before = bench.client.hgetall(bench.keys.lock)
    with pytest.raises(ResponseError, match=r"^PROTOCOL 2 3 \d+"):
        bench.acquire("a", mode=mode, wait=wait)
    assert before == bench.client.hgetall(bench.keys.lock)


def test_it_is_refused_through_the_last_millisecond_of_a_lease(bench: Bench) -> None:
    keys = set_keys(bench.prefix, 0, (bench.name,))
    text = ENDS_NOW % FENCE + scripts.ACQUIRE.text.decode()

    def refused() -> bool:
        try:
            bench.client.eval(text, len(keys), *keys, "a", 60_000, "exclusive", WHO, "nobody", 0, 1)
        except ResponseError as error:
            return str(error).startswith("PROTOCOL")
        return False

    # The clock of some servers goes on while a script runs, so the next millisecond may begin
    # meanwhile.
    assert any(refused() for _ in range(100))


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize("taken_over", [True, False])
def test_its_fencing_tokens_go_on_when_its_leases_have_ended(
    bench: Bench, mode: str, taken_over: bool
) -> None:
    used_by_another_version(bench, shared_until=ENDED, held_until=ENDED)
    if taken_over:
        assert not bench.release("nobody")
    assert FENCE < int(bench.acquire("a", mode=mode)[1])


def test_what_it_counted_does_not_count_when_its_leases_have_ended(bench: Bench) -> None:
    used_by_another_version(bench, shared_until=ENDED, held_until=ENDED)
    assert "1" == bench.acquire("a", mode="shared")[0]
    assert "0" == bench.acquire("b", mode="no_key")[0]


def leases_as_others_read_them(bench: Bench) -> tuple[int, int]:
    """Return until when sharers and the exclusive holder hold, by what all versions share."""
    state, holder = bench.client.hmget(bench.keys.lock, "state", "holder")
    return int(state.split()[1]), int(holder.split()[1]) if holder else 0


@pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:2"])
def test_another_version_can_read_how_long_our_leases_last(bench: Bench, mode: str) -> None:
    now = int(bench.acquire("a", mode=mode, lease=10_000)[2])
    assert now + 10_000 <= max(leases_as_others_read_them(bench))
    bench.acquire("b", mode=mode, lease=20_000)
    _, now_too, ends = bench.extend("a", 60_000)
    assert int(now_too) + 60_000 == int(ends) == max(leases_as_others_read_them(bench))
