"""Each header is the contract of its script; here it is held against the code."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from redis_locks import scripts
from redis_locks.compat import commands as compat
from redis_locks.run_once import scripts as run_once
from redis_locks.scripts import Script
from redis_locks.statistics import scripts as statistics
from redis_locks.values.keys import CompatKeys, LockKeys, index_key

KEYS = {
    scripts.__name__: {"index", "index lock", "index lock..."},
    run_once.__name__: {"index lock"},
    statistics.__name__: {"index"},
    "redis_locks.compat": {" ".join(CompatKeys._fields)},
}
"""What the scripts of each package may take."""

EVERY = [*scripts.ALL, *run_once.ALL, *statistics.ALL, *compat.ALL]
PARTS = ["_claim", "_exclusive", "_modes", "_queue", "_end"]
SPELLING = ["_prelude", "_keys", "_messages", "_lock"]

each_script = pytest.mark.parametrize(
    "script", EVERY, ids=lambda script: f"{script.package}.{script.name}"
)


def split(name: str, package: str = scripts.__name__) -> tuple[str, str]:
    """Return the comment lines a file begins with, and its code without any comment."""
    text = (files(package) / f"{name}.lua").read_text()
    header = re.match(r"(?:--.*\n)+", text)
    assert header, f"{name}.lua must begin with a comment"
    return header.group(), re.sub(r"--.*", "", text)


def used(code: str, array: str) -> set[int]:
    return {int(number) for number in re.findall(rf"\b{array}\[(\d+)\]", code)}


@each_script
def test_the_header_says_what_the_script_does_takes_and_replies(script: Script) -> None:
    header, code = split(script.name, script.package)
    assert re.match(r"-- [A-Z]", header)
    assert re.search(r"^-- Reply: \S", header, re.MULTILINE)
    keys = re.search(r"^-- KEYS: (.*)$", header, re.MULTILINE)
    assert keys
    assert keys.group(1) in KEYS[script.package]
    assert re.search(r"^-- ARGV: token\b", header, re.MULTILINE)
    if not re.search(r"^--   \d\.\.\. ", header, re.MULTILINE):  # any number of them
        documented = {int(number) for number in re.findall(r"^--   (\d+) \S", header, re.MULTILINE)}
        assert documented == used(code, "ARGV") - {1}


@each_script
def test_only_shared_parts_read_keys_and_time_is_the_server_s(script: Script) -> None:
    _, code = split(script.name, script.package)
    # The usual way of acquire comes before the parts.
    assert "KEYS" not in code or script is scripts.ACQUIRE
    assert not re.search(r"os\.time|\btag\b", code)
    assert b"--include" not in script.text


@pytest.mark.parametrize("name", [*PARTS, *(script.name for script in scripts.ALL)])
def test_only_the_first_parts_spell_keys(name: str) -> None:
    code = split(name)[1]
    assert "tag" not in code
    assert not re.search(r'"[a-z]+:"', re.sub('"(upgrade|intent):"', "", code))


@pytest.mark.parametrize("name", [*SPELLING, *PARTS])
def test_no_shared_part_reads_another_clock(name: str) -> None:
    assert "os.time" not in split(name)[1]


def test_one_part_lists_every_key_as_the_package_spells_it() -> None:
    header, _ = split("_lock")
    documented = re.findall(r"^--   P\{n\}:(\w+):NAME  +[A-Z]+ ", header, re.MULTILINE)
    assert list(LockKeys._fields) == documented
    assert index_key("P", 0) == b"P{0}:index"
    assert "P{n}:index " in header
    assert "P{n}:run:NAME " in split("_job", run_once.__name__)[0]


def test_the_first_part_of_compat_binds_all_keys_and_the_token() -> None:
    header, code = split("_prelude", "redis_locks.compat")
    assert list(CompatKeys._fields) == re.findall(r"^--   (\w+)  +[A-Z]+ ", header, re.MULTILINE)
    assert ({1, 2, 3, 4}, {1}) == (used(code, "KEYS"), used(code, "ARGV"))


@pytest.mark.parametrize("package", KEYS)
def test_every_lua_file_is_loaded(package: str) -> None:
    lua = {
        each.name.removesuffix(".lua") for each in files(package).iterdir() if ".lua" in each.name
    }
    loaded = {script.name for script in EVERY if script.package == package}
    assert loaded == {name for name in lua if not name.startswith("_")}
