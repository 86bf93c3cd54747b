"""Each header is the contract of its script; here it is held against the code."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from redis_locks import scripts
from redis_locks.keys import LockKeys

PRELUDE_ARGV = {1, 2}


def read(name: str) -> str:
    return (files("redis_locks.scripts") / f"{name}.lua").read_text()


def split(name: str) -> tuple[str, str]:
    """Return the comment lines a script begins with, and its code without any comment."""
    text = read(name)
    header = re.match(r"(?:--.*\n)+", text)
    assert header, f"{name}.lua must begin with a comment"
    return header.group(), re.sub(r"--.*", "", text)


def used(code: str, array: str) -> set[int]:
    assert len(re.findall(rf"\b{array}\b", code)) == len(re.findall(rf"\b{array}\[\d+\]", code)), (
        f"{array} must be indexed with plain numbers only"
    )
    return {int(number) for number in re.findall(rf"\b{array}\[(\d+)\]", code)}


ALL = [script.name for script in scripts.ALL]


@pytest.mark.parametrize("name", ALL)
def test_the_header_says_what_the_script_does_and_replies(name: str) -> None:
    header, _ = split(name)
    assert re.match(r"-- [A-Z].*\.", header)
    assert re.search(r"^-- Reply: \S", header, re.MULTILINE)


@pytest.mark.parametrize("name", ALL)
def test_the_header_names_the_keys_in_the_order_in_which_they_are_sent(name: str) -> None:
    header, _ = split(name)
    keys = re.search(r"^-- KEYS: (.*)$", header, re.MULTILINE)
    assert keys
    assert list(LockKeys._fields) == keys.group(1).split()


@pytest.mark.parametrize("name", ALL)
def test_the_arguments_in_the_header_are_those_that_the_code_uses(name: str) -> None:
    header, code = split(name)
    assert re.search(r"^-- ARGV: token name\b", header, re.MULTILINE)
    documented = {int(number) for number in re.findall(r"^--   (\d+) \S", header, re.MULTILINE)}
    assert documented == used(code, "ARGV") - PRELUDE_ARGV


@pytest.mark.parametrize("name", ALL)
def test_only_the_prelude_binds_keys(name: str) -> None:
    assert set() == used(split(name)[1], "KEYS")


def test_the_prelude_binds_all_keys_and_the_first_two_arguments() -> None:
    header, code = split("_prelude")
    documented = re.findall(r"^--   (\w+)  +[A-Z]+ ", header, re.MULTILINE)
    assert list(LockKeys._fields) == documented
    assert set(range(1, len(LockKeys._fields) + 1)) == used(code, "KEYS")
    assert PRELUDE_ARGV == used(code, "ARGV")


@pytest.mark.parametrize("name", ["_prelude", *ALL])
def test_time_comes_from_the_server_only(name: str) -> None:
    assert "os.time" not in split(name)[1]


@pytest.mark.parametrize("name", ["_prelude", *ALL])
def test_no_script_spells_a_key(name: str) -> None:
    _, code = split(name)
    calls = re.findall(r'redis\.call\("(\w+)"(?:, ([^,)]+))?', code)
    subjects = {subject for command, subject in calls if command not in {"TIME", "PUBLISH"}}
    assert subjects <= {"holder_key", "queue", "claims", "fence_key", "index", "key"}
