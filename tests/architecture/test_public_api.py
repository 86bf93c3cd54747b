"""The public API is what the reviewed file says, name by name and signature by signature."""

from __future__ import annotations

import difflib

import pytest

from tests.architecture import surface


def test_the_public_api_is_the_reviewed_one() -> None:
    reviewed = surface.FILE.read_text(encoding="utf-8").splitlines()
    found = surface.describe()
    if found != reviewed:
        diff = difflib.unified_diff(reviewed, found, "public_api.txt", "the code", n=2, lineterm="")
        pytest.fail(
            "The public API changed. If that is meant, run `python -m tests.architecture --write`, "
            "review the file and say so in CHANGELOG.md.\n" + "\n".join(diff),
            pytrace=False,
        )
