"""Taking what is free of many locks."""

from __future__ import annotations

from redis_locks import scripts
from tests.scripts.bench import WHO, Bench
from tests.scripts.rows import AB, A, B, asked, lock, queue_up


def take(
    bench: Bench, token: str, groups: str, *, most: int = 9, first: bool = True, read_ago: int = 0
) -> list[str]:
    names = ("M", "M:a", "M:b", "M:c")
    argv = (60_000, asked("exclusive"), WHO, token, most, groups, int(first), read_ago)
    fence, _, *taken = bench.words(scripts.TAKE, token, *argv, names=names)
    numbers = [number for number, group in enumerate(groups.split(), 1) if group != "-"]
    assert (fence != "0") == any(str(number) in taken for number in numbers)
    return taken


def test_a_group_is_taken_whole_or_not_at_all(bench: Bench) -> None:
    lock(bench, "a", B)
    assert ["2"] == take(bench, "t", "1,2,3 1,2,4")
    assert ["t"] == bench.holders("M:a") == bench.holders("M:c")
    assert [] == take(bench, "u", "1,2 1,4")


def test_a_group_without_locks_is_free(bench: Bench) -> None:
    lock(bench, "a", A)
    assert ["2"] == take(bench, "t", "1,2 - 1,2")
    assert [] == bench.holders("M:b")
    assert ["1", "2"] == take(bench, "u", "1,3 - 1,4", most=2)
    assert ["1", "2"] == take(bench, "u", "1,3 - 1,4", most=2, first=False)
    assert ["u"] == bench.holders("M:b")


def test_nothing_is_taken_before_those_who_wait(bench: Bench) -> None:
    lock(bench, "a", A)
    queue_up(bench, "w", AB)  # b is free, but w is first
    assert ["3"] == take(bench, "t", "1,2 1,3 1,4")


def test_the_dead_in_line_keep_nothing(bench: Bench) -> None:
    lock(bench, "a", A)
    bench.queue_up("w", mode=asked("exclusive"), names=AB)
    assert ["2"] == take(bench, "t", "1,2 1,3")


def test_a_model_that_is_locked_has_no_free_rows(bench: Bench) -> None:
    bench.acquire("m", mode="shared", names=["M"])
    assert [] == take(bench, "t", "1,2 1,3")


def test_taking_again_returns_what_was_taken_and_no_more(bench: Bench) -> None:
    lock(bench, "a", A)
    assert ["2"] == take(bench, "t", "1,2 1,3 1,4", most=1)
    bench.release("a", names=A)
    assert ["2"] == take(bench, "t", "1,2 1,3 1,4", most=1, first=False)
    assert [] == bench.holders("M:a")
    bench.give_up("t", mode=asked("exclusive"), names=("M", "M:a", "M:b", "M:c"))
    assert [] == bench.holders("M")
    assert ["1"] == take(bench, "t", "1,2 1,3 1,4", most=1, first=False)


def test_what_somebody_had_since_it_was_read_comes_last(bench: Bench) -> None:
    lock(bench, "a", A)
    assert bench.release("a", names=A)
    long_ago = 60_000_000  # microseconds
    assert ["1"] == take(bench, "t", "1,2 1,3 1,4", most=1)
    assert bench.release("t", names=A)
    assert ["2"] == take(bench, "u", "1,2 1,3 1,4", most=1, read_ago=long_ago)
    assert ["1", "3"] == take(bench, "v", "1,2 1,3 1,4", most=2, read_ago=long_ago)


def test_what_was_released_since_it_was_read_comes_last_however_long_it_was_held(
    bench: Bench,
) -> None:
    lock(bench, "a", A)
    bench.set_fence(1, "M:a")  # as if it had been granted long before the caller began to read
    assert bench.release("a", names=A)
    assert ["2"] == take(bench, "t", "1,2 1,3 1,4", most=1, read_ago=60_000_000)


def test_those_that_come_last_fill_up_what_is_left(bench: Bench) -> None:
    for number in range(2):
        lock(bench, f"e{number}", (A, B)[number])
        assert bench.release(f"e{number}", names=(A, B)[number])
    assert ["1", "3"] == take(bench, "t", "1,2 1,3 1,4", most=2, read_ago=60_000_000)
