"""What the benchmark says of its figures, and where it writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo_project.benchmark.worker import work
from redis_locks import Lock
from redis_locks.testing.overrides import override_locks
from tests import written_tables
from tests.benchmarks.sections import Round, Section, Wanted, ratio
from tests.benchmarks.transfers import KEYS

ROOT = Path(__file__).resolve().parents[2]
ROUNDS: list[Round] = [
    {"ours": {"rate": 300.0}, "theirs": {"rate": 100.0}},
    {"ours": {"rate": 100.0}, "theirs": {"rate": 100.0}},
    {"ours": {"rate": 4000.0}, "theirs": {"rate": 2000.0}},
]


def _ahead(round_: Round) -> float:
    return ratio(round_, "ours", "theirs")


def run_benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process that has not loaded Django yet."""
    kept = {name: value for name, value in os.environ.items() if "SETTINGS" not in name}
    return subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *arguments],
        env=kept,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_benchmark_starts_without_settings() -> None:
    shown = run_benchmark("--help")
    assert (0, "") == (shown.returncode, shown.stderr)


@pytest.mark.ci
def test_the_benchmark_measures_transfers() -> None:
    short = ("--only", "transfers", "--seconds", "0.05", "--repeat", "1", "--pin", "off")
    run = run_benchmark(*short)
    assert "" == run.stderr
    assert all(f"\n| {label} | " in run.stdout for label in KEYS)


def test_what_was_seen_is_the_median_of_the_ratios_within_a_round() -> None:
    seen = Wanted("speed", _ahead, 2.0).row([ROUNDS])
    assert (True, "| speed | at least 2.00x | 2.00x (1.00x to 3.00x) |\n") == seen


def test_a_section_s_table_has_medians_and_compares_within_rounds() -> None:
    section = Section("key", "Title", ("ours", "theirs"), open=None, wanted=(), compared="ours is")
    lines = "".join(section.table(ROUNDS)).splitlines()
    assert "Title, median of 3 rounds" in lines
    assert ["| ours | 300 | 1.00x |", "| theirs | 100 | 2.00x |"] == lines[-2:]


def test_only_what_was_held_in_time_counts_as_in_use() -> None:
    with override_locks("granted"):
        lock = Lock("benchmark")
        report = work(lambda: lock, seconds=0.02, hold=0.03)
        assert (1, 1) == (report.tries, len(report.waits_us))
        assert 0 < report.held <= 0.02
        assert 0.0 == work(lambda: lock, seconds=0.001).held


def test_a_table_is_written_between_its_comments_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- speed -->\nold\n<!-- /speed -->\nb\n", encoding="utf-8")
    monkeypatch.setattr(written_tables, "PAGES", {"speed": page, "size": page})
    written_tables.write_between("speed", "new \\1\n")
    assert "a\n<!-- speed -->\nnew \\1\n<!-- /speed -->\nb\n" == page.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="size"):
        written_tables.write_between("size", "new\n")
