from __future__ import annotations

import redis

from redis_locks import scripts
from redis_locks.testing.server import EmbeddedServer
from redis_locks.values.claims import write_who
from tests.scripts.bench import WHO, Bench


def acquire_for_process(bench: Bench, token: str, listener: str, **options: object) -> None:
    """Acquire as a process that listens to `listener` as long as it lives."""
    argv = (60_000, "exclusive", f"{WHO}\t{listener}", "nobody", 0, 1)
    words = bench.words(scripts.ACQUIRE, token, *argv, **options)
    assert "1" == words[0]


def crash_release(bench: Bench, **options: object) -> int:
    return int(bench.words(scripts.CRASH_RELEASE, "asker", **options)[0])


def test_the_hold_of_a_process_that_is_gone_ends_and_the_first_waiter_has_the_lock(
    bench: Bench,
) -> None:
    acquire_for_process(bench, "a", bench.channel("listener"))
    bench.listen("waiter")
    bench.queue_up("waiter", "second")
    assert 1 == crash_release(bench)
    assert "waiter" == bench.holder()
    assert ["second"] == bench.queued()
    # Again, as after a lost reply: the next holder asked for nothing.
    assert 0 == crash_release(bench)


def test_a_server_out_of_memory_ends_it_though_the_next_holder_has_to_wait_for_the_model(
    private_server: EmbeddedServer, name: str
) -> None:
    """That frees memory before the waiter is written into another line."""
    client: redis.Redis
    with private_server.client() as client:
        bench = Bench(client, name)
        acquire_for_process(bench, "a", bench.channel("listener"), names=["row"])
        bench.stand("w", names=["model", "row"], mode="intent:1:exclusive")
        assert "1" == bench.acquire("b", names=["model"])[0]
        client.config_set("maxmemory", 1)
        assert 1 == crash_release(bench, names=["row"])
        assert [] == bench.holders("row")
        bench.close()


def test_a_label_is_no_channel(bench: Bench) -> None:
    who = write_who("web-1", 1, "thread", "x\tgone")
    bench.words(scripts.ACQUIRE, "a", 60_000, "exclusive", who, "nobody", 0, 1)
    assert 0 == crash_release(bench)
    assert "a" == bench.holder()


def test_of_a_set_only_what_is_asked_for_is_handed_on(bench: Bench) -> None:
    acquire_for_process(bench, "a", bench.channel("listener"), names=("x", "y"))
    assert 1 == crash_release(bench, names=("x",))
    assert [[], ["a"]] == [bench.holders("x"), bench.holders("y")]
    assert not bench.release("a", names=("x", "y"))


def near(bench: Bench, *tokens: str) -> list[int]:
    """How many waiters stand nearer to an end of the line than each of these.

    A look at the holder says it.
    """
    return [int(bench.words(scripts.CRASH_RELEASE, token)[1]) for token in tokens]


def test_a_waiter_learns_how_near_it_stands_to_an_end_of_the_line(bench: Bench) -> None:
    bench.listen("listener")
    acquire_for_process(bench, "a", bench.channel("listener"))
    bench.queue_up(*"bcdef")
    assert [0, 1, 2, 1, 0] == near(bench, *"bcdef")
    assert [0] == near(bench, "newcomer")
    bench.give_up("b")
    bench.give_up("e")
    assert [0, 1, 0] == near(bench, *"cdf")


def test_waiters_that_have_left_do_not_count(bench: Bench) -> None:
    """Neither behind those that stay, nor before those that come later."""
    bench.listen("listener")
    acquire_for_process(bench, "a", bench.channel("listener"))
    passing = [f"passing:{number}" for number in range(30)]
    bench.queue_up(*"bcd", *passing)
    for token in passing:
        bench.give_up(token)
    assert [0, 1, 0] == near(bench, *"bcd")
    bench.queue_up(*"efg")
    assert [0, 1, 2, 2, 1, 0] == near(bench, *"bcdefg")


def test_in_a_crowd_it_is_enough_to_know_that_many_stand_nearer(bench: Bench) -> None:
    bench.listen("listener")
    acquire_for_process(bench, "a", bench.channel("listener"))
    bench.queue_up(*(f"waiter:{number}" for number in range(200)))
    assert near(bench, "waiter:100")[0] >= 20
