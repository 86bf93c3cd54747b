"""Each header is the contract of its script; here it is held against the code."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from redis_locks import scripts
from redis_locks.values.keys import LockKeys, index_key

PRELUDE_ARGV = {1}
PARTS = ["_claim", "_exclusive", "_modes", "_queue", "_end"]
SPELLING = ["_prelude", "_keys", "_messages", "_lock"]
SHARED = [*SPELLING, *PARTS]


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
def test_the_header_names_the_keys(name: str) -> None:
    header, _ = split(name)
    keys = re.search(r"^-- KEYS: (.*)$", header, re.MULTILINE)
    assert keys
    assert keys.group(1) in {"index", "index lock", "index lock..."}


@pytest.mark.parametrize("name", ALL)
def test_the_arguments_in_the_header_are_those_that_the_code_uses(name: str) -> None:
    header, code = split(name)
    assert re.search(r"^-- ARGV: token\b", header, re.MULTILINE)
    if re.search(r"^--   2\.\.\. ", header, re.MULTILINE):
        return  # any number of them
    documented = {int(number) for number in re.findall(r"^--   (\d+) \S", header, re.MULTILINE)}
    bound = used(code, "ARGV")
    assert documented == bound - PRELUDE_ARGV


@pytest.mark.parametrize(
    "name", sorted({*ALL} - {"acquire"})
)  # whose usual way comes before the parts
def test_only_shared_parts_read_keys(name: str) -> None:
    assert "KEYS" not in split(name)[1]


def test_one_part_lists_every_key_as_the_package_spells_it() -> None:
    header, _ = split("_lock")
    documented = re.findall(r"^--   P\{n\}:(\w+):NAME  +[A-Z]+ ", header, re.MULTILINE)
    assert list(LockKeys._fields) == documented
    assert index_key("P", 0) == b"P{0}:index"
    assert "P{n}:index " in header


@pytest.mark.parametrize("name", [*PARTS, *ALL])
def test_only_the_first_parts_spell_keys(name: str) -> None:
    assert "tag" not in split(name)[1]
    assert not re.search(r'"[a-z]+:"', re.sub('"(upgrade|intent):"', "", split(name)[1]))


@pytest.mark.parametrize("name", [*SHARED, *ALL])
def test_time_comes_from_the_server_only(name: str) -> None:
    assert "os.time" not in split(name)[1]
