"""Commit: the caller's commands and the end of the hold in one step, or neither."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from redis_locks import scripts
from tests.scripts.bench import Bench


def committed(bench: Bench, token: str, *commands: tuple[object, ...]) -> list[str]:
    words = [word for command in commands for word in (len(command), *command)]
    return bench.words(scripts.COMMIT, token, *words)


def data(bench: Bench) -> str:
    return f"{bench.prefix}-data"


@pytest.mark.parametrize("mode", ["shared", "permit:1", "no_key"])
def test_one_that_shares_the_lock_shares_it_no_more(bench: Bench, mode: str) -> None:
    bench.acquire("a", mode=mode)
    heard = bench.stand("w")
    assert ["1"] == committed(bench, "a")
    assert bench.heard(heard)
    assert ["w"] == bench.holders()


def test_a_command_that_fails_is_told_again_too_and_those_after_it_run(bench: Bench) -> None:
    bench.acquire("a")
    key = data(bench)
    step = ("SET", key, "text", "PX", 60_000), ("INCR", key), ("APPEND", key, "!")
    done, *error = committed(bench, "a", *step)
    assert ("1", b"text!") == (done, bench.client.get(key))
    assert "not an integer" in " ".join(error)
    assert [done, *error] == committed(bench, "a", *step)
    assert bench.holder() is None


def test_of_a_set_all_are_ended_or_none(bench: Bench) -> None:
    names = ("x:a", "x:b")
    bench.acquire("a", names=names)
    words = ("SET", data(bench), "7", "PX", 60_000)
    assert ["1"] == bench.words(scripts.COMMIT, "a", len(words), *words, names=names)
    assert [] == bench.holders("x:a") == bench.holders("x:b")
    bench.acquire("c", names=["x:a"])
    assert ["0"] == bench.words(scripts.COMMIT, "c", len(words), *words, names=names)
    assert ["c"] == bench.holders("x:a")


def test_a_command_of_too_many_words_is_refused_before_any_ran(bench: Bench) -> None:
    bench.acquire("a")
    words = ("RPUSH", data(bench), *range(8000))
    with pytest.raises(ResponseError, match="more than 7000 words"):
        bench.run(scripts.COMMIT, "a", 2, "INCR", data(bench), len(words), *words)
    assert (None, "a") == (bench.client.get(data(bench)), bench.holder())
