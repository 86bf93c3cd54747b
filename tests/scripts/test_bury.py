from __future__ import annotations

from redis_locks import scripts
from redis_locks.values.claims import write_who
from tests.scripts.bench import WHO, Bench


def mourned(bench: Bench, token: str, ear: str, **options: object) -> None:
    """Acquire as a process that listens to `ear` as long as it lives."""
    argv = (60_000, "exclusive", f"{WHO}\t{ear}", "nobody", 0, 1)
    words = bench.words(scripts.ACQUIRE, token, *argv, **options)
    assert "1" == words[0]


def bury(bench: Bench, **options: object) -> int:
    return int(bench.words(scripts.BURY, "asker", **options)[0])


def test_the_hold_of_a_process_that_is_gone_ends_and_the_first_waiter_has_the_lock(
    bench: Bench,
) -> None:
    mourned(bench, "a", bench.channel("ear"))
    bench.listen("waiter")
    bench.queue_up("waiter", "second")
    assert 1 == bury(bench)
    assert "waiter" == bench.holder()
    assert ["second"] == bench.queued()
    assert 0 == bury(bench)  # again, as after a lost reply: the next holder asked for nothing


def test_as_long_as_somebody_listens_it_stays(bench: Bench) -> None:
    bench.listen("ear")
    mourned(bench, "a", bench.channel("ear"))
    assert 0 == bury(bench)
    assert "a" == bench.holder()


def test_holds_that_did_not_ask_for_it_stay(bench: Bench) -> None:
    bench.acquire("a")
    assert 0 == bury(bench)
    assert "a" == bench.holder()


def test_a_label_is_no_channel(bench: Bench) -> None:
    who = write_who("web-1", 1, "thread", "x\tgone")
    bench.words(scripts.ACQUIRE, "a", 60_000, "exclusive", who, "nobody", 0, 1)
    assert 0 == bury(bench)
    assert "a" == bench.holder()


def test_of_a_set_only_what_is_asked_for_is_handed_on(bench: Bench) -> None:
    mourned(bench, "a", bench.channel("ear"), names=("x", "y"))
    assert 1 == bury(bench, names=("x",))
    assert [[], ["a"]] == [bench.holders("x"), bench.holders("y")]
    assert not bench.release("a", names=("x", "y"))
