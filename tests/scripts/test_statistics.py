"""The scripts of the statistics: their headers, and the bounds that they keep."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
import redis

from redis_locks.statistics import scripts
from tests.support.keys import index_key
from tests.support.scripts import Script

ALL = [script.name for script in scripts.ALL]

LISTS = ("notable", "frequent", "ended")


def split(name: str) -> tuple[str, str]:
    """Return the comment lines a script begins with, and its code without any comment."""
    text = files(scripts).joinpath(f"{name}.lua").read_text()
    header = re.match(r"(?:--.*\n)+", text)
    assert header
    return header.group(), re.sub(r"--.*", "", text)


def test_every_script_has_a_lua_file() -> None:
    lua = {each.name for each in files(scripts).iterdir() if each.name.endswith(".lua")}
    assert {"_stats.lua", *(f"{name}.lua" for name in ALL)} == lua


@pytest.mark.parametrize("name", ALL)
def test_the_header_is_the_contract_of_the_script(name: str) -> None:
    header, code = split(name)
    assert re.match(r"-- [A-Z].*\.", header)
    assert "-- KEYS: index\n" in header
    assert re.search(r"^-- ARGV: token \(not used\)$", header, re.MULTILINE)
    assert re.search(r"^-- Reply: \S", header, re.MULTILINE)
    assert not {"KEYS", "os.time", "tag"} & set(re.findall(r"[\w.]+", code))


@pytest.fixture
def run(client: redis.Redis, name: str) -> Any:
    def run(script: Script, *argv: object) -> Any:
        return client.eval(script.text, 1, index_key(name, 0), "", *argv)  # type: ignore[arg-type]

    return run


def figures(run: Any, seconds: int = 60) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    following = b"0"
    while True:
        _, _, following, packed = run(scripts.READ, seconds, -1, following)
        words = packed.split(b"\0") if packed else []  # a part may be empty
        found.update(zip(words[::2], map(int, words[1::2]), strict=True))
        if following == b"0":
            return found


def test_figures_are_added_up_by_the_minute_and_by_the_quarter_of_an_hour(run: Any) -> None:
    run(scripts.ADD, "a x", 2, "c x", 1)
    run(scripts.ADD, "a x", 3)
    for seconds in (60, 900):
        assert {b"a x": 5, b"c x": 1} == figures(run, seconds)


def test_a_bucket_with_very_many_figures_adds_new_ones_to_the_rest(run: Any) -> None:
    for start in (0, 2500):
        words = [word for number in range(start, start + 2500) for word in (f"a {number}", 1)]
        run(scripts.ADD, *words)
    run(scripts.ADD, "a one more", 7, "w3 another", 1, "a 17", 1)
    found = figures(run)
    assert (7, 1, 2) == (found[b"a "], found[b"w3 "], found[b"a 17"])
    assert b"a one more" not in found


def test_only_the_latest_notes_of_a_lock_are_kept(run: Any) -> None:
    for number in range(60):
        words = [w for kept in LISTS for w in ("x", kept, 0, f"{kept} {number}")]
        run(scripts.NOTE, 3, *words)
    for kept, most in zip(LISTS, (50, 20, 3), strict=True):
        texts = [note.split(b" ", 1)[1].decode() for note in run(scripts.NOTES, "x", kept)]
        assert [f"{kept} {number}" for number in range(59, 59 - most, -1)] == texts


def test_only_the_latest_locks_that_were_noted_have_notes(run: Any, client: redis.Redis) -> None:
    run(scripts.NOTE, 1, *(w for kept in LISTS for w in ("first", kept, 0, "{}")))
    for start in (0, 1000):
        words = [w for n in range(start, start + 1000) for w in (f"lock:{n}", "notable", 0, "{}")]
        run(scripts.NOTE, 1, *words)
    assert [] == run(scripts.NOTES, "first", *LISTS)
    assert 1 == len(run(scripts.NOTES, "lock:1999", *LISTS))


def test_every_key_ends_by_itself(run: Any, client: redis.Redis, name: str) -> None:
    run(scripts.ADD, "a x", 1)
    run(scripts.NOTE, 1, *(w for kept in LISTS for w in ("x", kept, 0, "{}")))
    keys = list(client.scan_iter(f"{name}*"))
    assert 6 == len(keys)
    assert all(client.ttl(key) > 0 for key in keys)
    # Long enough to be read as the oldest one of its period.
    minutes = client.ttl(next(key for key in keys if b":60:" in key))
    assert 3600 < minutes < 2 * 3600
