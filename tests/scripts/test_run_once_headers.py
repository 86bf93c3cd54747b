"""The headers of run_once's scripts are contracts as well; the rules for a lock's scripts hold."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from redis_locks.run_once import scripts

ALL = [script.name for script in scripts.ALL]
SHARED_ARGV = {1}


def split(name: str) -> tuple[str, str]:
    """Return the comment lines a script begins with, and its code without any comment."""
    text = files(scripts).joinpath(f"{name}.lua").read_text()
    header = re.match(r"(?:--.*\n)+", text)
    assert header
    return header.group(), re.sub(r"--.*", "", text)


def used(code: str, array: str) -> set[int]:
    assert len(re.findall(rf"\b{array}\b", code)) == len(re.findall(rf"\b{array}\[\d+\]", code))
    return {int(number) for number in re.findall(rf"\b{array}\[(\d+)\]", code)}


def test_every_script_has_a_lua_file_and_includes_the_job_and_its_lock() -> None:
    lua = {each.name for each in files(scripts).iterdir() if each.name.endswith(".lua")}
    assert {"_job.lua", *(f"{name}.lua" for name in ALL)} == lua
    for script in scripts.ALL:
        assert b"local function settle(" in script.text
        assert b"local function finish(" in script.text
        assert b"--include" not in script.text


@pytest.mark.parametrize("name", ALL)
def test_the_header_is_the_contract_of_the_script(name: str) -> None:
    header, code = split(name)
    assert re.match(r"-- [A-Z].*\.", header)
    assert "-- KEYS: index lock\n" in header
    assert re.search(r"^-- ARGV: token$", header, re.MULTILINE)
    assert re.search(r"^-- Reply: \S", header, re.MULTILINE)
    documented = {int(number) for number in re.findall(r"^--   (\d+) \S", header, re.MULTILINE)}
    assert documented == used(code, "ARGV") - SHARED_ARGV


@pytest.mark.parametrize("name", ALL)
def test_only_the_first_parts_bind_the_record_and_time_is_the_server_s(name: str) -> None:
    _, code = split(name)
    assert "KEYS" not in code
    assert "os.time" not in code


def test_only_the_job_s_part_spells_the_record() -> None:
    header, code = split("_job")
    assert "P{n}:run:NAME " in header
    assert 1 == code.count('tag .. "run:"')
    for name in ALL:
        assert "tag" not in split(name)[1]
