"""The scripts of the statistics: their headers, and the bounds that they keep."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import redis

from redis_locks.statistics import scripts
from tests.support.keys import index_key
from tests.support.scripts import Script

LISTS = ("notable", "frequent", "ended")


@pytest.fixture
def run(client: redis.Redis, name: str) -> Any:
    def run(script: Script, *argv: object) -> Any:
        return client.eval(script.text, 1, index_key(name, 0), "", *argv)  # type: ignore[arg-type]

    return run


_numbers = count(1)


def add(run: Any, *words: object, age_ms: int = 0) -> Any:
    return run(scripts.ADD, "process", next(_numbers), age_ms, *words)


def note(run: Any, history: int, *words: object) -> Any:
    return run(scripts.NOTE, "process", next(_numbers), history, *words)


def figures(run: Any, seconds: int = 60) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    following = b"0"
    while True:
        _, _, following, packed = run(scripts.READ, seconds, -1, following)
        words = packed.split(b"\0") if packed else []  # a part may be empty
        found.update(zip(words[::2], map(int, words[1::2]), strict=True))
        if following == b"0":
            return found


def test_what_comes_too_late_is_left_out(run: Any, client: redis.Redis, name: str) -> None:
    add(run, "l x", 1, age_ms=4_000_000)  # over an hour: no minute of then is read
    assert {":900:", ":sent:"} == {
        part
        for key in client.scan_iter(f"{name}*")
        for part in (":60:", ":900:", ":sent:")
        if part in key.decode()
    }


@pytest.mark.parametrize(
    ("script", "words"),
    [(scripts.ADD, (0, "a x", 1)), (scripts.NOTE, (1, "x", "notable", 0, "{}"))],
    ids=["add", "note"],
)
def test_what_comes_again_counts_once(run: Any, script: Script, words: tuple[object, ...]) -> None:
    first = next(_numbers)
    number = next(_numbers)
    assert [1, 0, 0] == [run(script, "process", each, *words) for each in (number, number, first)]
    assert 1 == run(script, "another", first, *words)
    counted = figures(run).get(b"a x", 0) + len(run(scripts.NOTES, "x", "notable"))
    assert 2 == counted


def test_a_bucket_with_very_many_figures_adds_new_ones_to_the_rest(run: Any) -> None:
    for start in (0, 2500):
        words = [word for number in range(start, start + 2500) for word in (f"a {number}", 1)]
        add(run, *words)
    add(run, "a one more", 7, "w3 another", 1, "a 17", 1)
    found = figures(run)
    assert (7, 1, 2) == (found[b"a "], found[b"w3 "], found[b"a 17"])
    assert b"a one more" not in found


def test_only_the_latest_notes_of_a_lock_are_kept(run: Any) -> None:
    for number in range(60):
        words = [w for kept in LISTS for w in ("x", kept, 0, f"{kept} {number}")]
        note(run, 3, *words)
    for kept, most in zip(LISTS, (50, 20, 3), strict=True):
        texts = [note.split(b" ", 1)[1].decode() for note in run(scripts.NOTES, "x", kept)]
        assert [f"{kept} {number}" for number in range(59, 59 - most, -1)] == texts


def test_only_the_latest_locks_that_were_noted_have_notes(run: Any, client: redis.Redis) -> None:
    note(run, 1, *(w for kept in LISTS for w in ("first", kept, 0, "{}")))
    for start in (0, 1000):
        words = [w for n in range(start, start + 1000) for w in (f"lock:{n}", "notable", 0, "{}")]
        note(run, 1, *words)
    assert [] == run(scripts.NOTES, "first", *LISTS)
    assert 1 == len(run(scripts.NOTES, "lock:1999", *LISTS))


def test_every_key_ends_by_itself(run: Any, client: redis.Redis, name: str) -> None:
    add(run, "a x", 1)
    note(run, 1, *(w for kept in LISTS for w in ("x", kept, 0, "{}")))
    keys = list(client.scan_iter(f"{name}*"))
    assert 7 == len(keys)
    assert all(client.ttl(key) > 0 for key in keys)
    # Long enough to be read as the oldest one of its period.
    minutes = client.ttl(next(key for key in keys if b":60:" in key))
    assert 3600 < minutes < 2 * 3600
