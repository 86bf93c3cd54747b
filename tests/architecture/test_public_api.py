"""The public API is what the reviewed file says, name by name and signature by signature."""

from __future__ import annotations

import difflib
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import redis_locks
from tests.architecture import surface

ROOT = Path(__file__).parents[2]


def test_the_public_api_is_the_reviewed_one() -> None:
    reviewed = surface.FILE.read_text(encoding="utf-8").splitlines()
    # In a process of its own: tests register what is none of it, such as further subjects of the
    # benchmark.
    command = [sys.executable, "-m", "tests.architecture"]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found = told.stdout.splitlines()
    if found != reviewed:
        diff = difflib.unified_diff(reviewed, found, "public_api.txt", "the code", n=2, lineterm="")
        pytest.fail(
            "The public API changed. If that is meant, run `python -m tests.architecture --write`, "
            "review the file and say so in CHANGELOG.md.\n" + "\n".join(diff),
            pytrace=False,
        )


def test_the_package_finds_each_public_name_when_it_is_asked_for() -> None:
    found = {name: getattr(redis_locks, name) for name in redis_locks.__all__}
    assert set(redis_locks.__all__) <= set(dir(redis_locks))
    for value in found.values():
        assert value is pickle.loads(pickle.dumps(value))  # noqa: S301 - made here


@pytest.mark.parametrize("name", ["optimistic", "run_once"])
def test_a_package_does_not_take_the_place_of_the_function_with_its_name(name: str) -> None:
    code = f"import redis_locks.{name}, redis_locks; assert redis_locks.{name}.__name__ == {name!r}"
    code += f"\nassert isinstance(redis_locks.{name}, type)"
    setup = "from django.conf import settings; settings.configure()\n"
    subprocess.run([sys.executable, "-c", setup + code], check=True)
    assert import_module(f"redis_locks.{name}") is not getattr(redis_locks, name)


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Lcok'"):
        _ = redis_locks.Lcok
