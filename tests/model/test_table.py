"""ARCHITECTURE.md says which code each step of the model stands for, and the code says so too."""

from __future__ import annotations

import re
from pathlib import Path

from tests.model.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "tests" / "model" / "protocol.pml").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (.*?`.*?) \| `([\w./]+\.(?:lua|py))`: (.*) \|$",
    (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_every_line_that_the_table_quotes_stands_in_the_code() -> None:
    assert len(ROWS) >= 10
    for _, file, quotes in ROWS:
        folder = ROOT / "redis_locks" / ("scripts" if file.endswith(".lua") else "")
        code = (folder / file).read_text(encoding="utf-8")
        missing = [quote for quote in re.findall(r"`(.+?)`", quotes) if quote not in code]
        assert [] == missing, file


def test_every_step_that_the_table_names_stands_in_the_model() -> None:
    for steps, _, _ in ROWS:
        assert [] == [step for step in re.findall(r"`(.+?)`", steps) if step not in MODEL]


def test_the_table_covers_every_script_that_changes_something() -> None:
    files = {file for _, file, _ in ROWS if file.endswith(".lua")}
    assert {
        "_exclusive.lua",
        "_end.lua",
        "acquire.lua",
        "extend.lua",
        "release.lua",
        "give_up.lua",
    } <= files


def test_every_mutant_is_in_the_model() -> None:
    switches = set(re.findall(r"#ifn?def ([A-Z_]+)", MODEL))
    sizes = {"CLIENTS", "ROUNDS", "LEASE", "TICKS", "FAULTS", "EXTENDS", "LATE_ONES"}
    assert set(MUTANTS) == switches - sizes
