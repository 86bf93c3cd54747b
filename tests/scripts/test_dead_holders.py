from __future__ import annotations

from redis_locks import scripts
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


def test_as_long_as_somebody_listens_it_stays(bench: Bench) -> None:
    bench.listen("listener")
    acquire_for_process(bench, "a", bench.channel("listener"))
    assert 0 == crash_release(bench)
    assert "a" == bench.holder()


def test_holds_that_did_not_ask_for_it_stay(bench: Bench) -> None:
    bench.acquire("a")
    assert 0 == crash_release(bench)
    assert "a" == bench.holder()


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
