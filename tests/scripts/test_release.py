from __future__ import annotations

import pytest
import redis
from redis.exceptions import ResponseError

from redis_locks.testing.server import EmbeddedServer
from redis_locks.values.keys import turn_key
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.support import stored


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_who_waits_for_its_turn_in_a_list_gets_it_there_as_well(bench: Bench, mode: str) -> None:
    heard = bench.listen("b+")
    bench.acquire("a")
    assert "0" == bench.acquire("b", wait=FOR_EVER, listener="b+", mode=mode)[0]
    assert bench.release("a")
    message = bench.heard(heard)
    assert message is not None
    assert "b" == message[0]
    turn = turn_key(bench.index_key, b"b")
    assert 0 < bench.client.pttl(turn) <= 100
    assert [message[1].encode()] == bench.client.lrange(turn, 0, -1)


def test_release_hands_over_to_the_first_waiter_and_tells_it(bench: Bench) -> None:
    heard, second = bench.listen("b"), bench.listen("c")
    before = int(bench.acquire("a")[1])
    bench.queue_up("b", "c")
    bench.release("a")
    token, fence, now = bench.heard(heard) or ()
    assert "b" == token
    assert int(fence) > before
    expected = f"{fence} {now} exclusive 60000 b 0 1 {WHO}"
    assert expected == bench.holder_claim()
    assert ["c"] == bench.queued()
    assert bench.heard(second) is None


def test_a_waiter_whose_time_is_up_is_skipped(bench: Bench) -> None:
    slow, heard = bench.listen("slow"), bench.listen("b")
    bench.acquire("a")
    bench.queue_up("slow", "b")
    claim = stored.claim_of_waiter(bench.client, bench.keys.lock, "slow").split(b" ", 6)
    claim[1] = b"%d" % (int(claim[1]) - 5_000)
    claim[5] = b"4000"
    stored.set_claim_of_waiter(bench.client, bench.keys.lock, "slow", b" ".join(claim))
    bench.release("a")
    assert bench.heard(slow) is None
    assert (bench.heard(heard) or [""])[0] == "b"
    assert "b" == bench.holder()


def test_a_late_release_of_an_ended_lease_hands_the_lock_on(bench: Bench) -> None:
    bench.acquire("a")
    bench.stand("b")
    bench.end_lease()
    assert bench.release("a"), "nobody had it meanwhile"
    assert "b" == bench.holder()


def test_a_foreign_key_in_the_way_of_a_hand_off_leaves_nobody_holding(bench: Bench) -> None:
    bench.acquire("a")
    heard = bench.stand("b")
    foreign = bench.put_foreign("index")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        bench.release("a")
    assert bench.is_untouched(foreign)
    assert bench.holder() is None
    assert bench.heard(heard) is None, "nobody may be told of a grant that was not made"


def test_a_server_out_of_memory_lets_go_of_a_row_whose_next_holder_has_to_wait_for_the_model(
    private_server: EmbeddedServer, name: str
) -> None:
    """The release frees memory before the waiter is written into another line."""
    client: redis.Redis
    with private_server.client() as client:
        bench = Bench(client, name)
        bench.acquire("a", names=["row"])
        bench.stand("w", names=["model", "row"], mode="intent:1:exclusive")
        assert "1" == bench.acquire("b", names=["model"])[0]
        client.config_set("maxmemory", 1)
        assert bench.release("a", names=["row"])
        assert [] == bench.holders("row")
        bench.close()
