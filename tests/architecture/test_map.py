"""ARCHITECTURE.md is a map of what there is: each file and each name of code in it exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "redis_locks"
MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
FOLDERS = (ROOT, PACKAGE, PACKAGE / "scripts", ROOT / "tests" / "django")
CODE = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
FILES = sorted(set(re.findall(r"`([\w.*/]+(?:\.(?:py|lua|pml|toml)|/))`", MAP)))
NAMES = sorted(set(re.findall(r"`([A-Z][a-z]\w*(?:\.\w+)?)(?:\(\))?`", MAP)))


def test_each_file_of_the_map_exists() -> None:
    assert len(FILES) > 50
    assert [] == [file for file in FILES if not any([*folder.glob(file)] for folder in FOLDERS)]


def test_each_class_and_method_of_the_map_exists() -> None:
    assert len(NAMES) > 20
    assert [] == [name for name in NAMES if not is_code(*name.partition(".")[::2])]


def is_code(owner: str, member: str) -> bool:
    """Whether the package has a class of that name, and such a class has the member."""
    bodies = re.findall(rf"^class {owner}\b.*\n((?:(?:[ )].*)?\n)*)", CODE, re.MULTILINE)
    defined = re.compile(rf"^    (?:async )?(?:def )?{member}\b", re.MULTILINE)
    return any(not member or defined.search(body) for body in bodies)
