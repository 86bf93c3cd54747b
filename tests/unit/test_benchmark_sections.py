"""What the benchmark says of its figures, and where it writes them."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redis_locks import Lock
from redis_locks.testing.overrides import override_locks
from tests import written_tables
from tests.benchmarks import contests, processors
from tests.benchmarks.crews import work
from tests.benchmarks.sections import Round, Section, Wanted, ratio
from tests.benchmarks.transfers import KEYS
from tests.support.children import run_python

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
    return run_python("-m", "tests.benchmarks", *arguments, within=300, env=kept)


def test_the_benchmark_starts_without_settings() -> None:
    shown = run_benchmark("--help")
    assert (0, "") == (shown.returncode, shown.stderr)


@pytest.mark.ci
@pytest.mark.timeout(300)
@pytest.mark.skipif(not processors.possible(), reason="needs two processors, and Linux")
def test_the_benchmark_measures_each_section_on_a_quiet_and_on_a_busy_machine() -> None:
    run = run_benchmark("--seconds", "0.05", "--repeat", "1")
    assert "" == run.stderr
    sections = run.stdout.split("| quiet / busy |")[1:]
    subjects = [*(section.subjects for section in contests.SECTIONS), KEYS]
    for shown, labels in zip(sections, subjects, strict=True):
        for label in labels:
            assert re.search(rf"^\| {label} \| [\d,.]+ / [\d,.]+ \|", shown, re.MULTILINE), label


def test_what_was_seen_is_the_median_of_the_ratios_within_a_round() -> None:
    seen = Wanted("speed", _ahead, 2.0).row({"quiet": ROUNDS, "busy": ROUNDS[:1]})
    assert (True, "| speed | at least 2.00x | 2.00x (1.00x to 3.00x) | 3.00x |\n") == seen


def _section() -> Section:
    return Section("key", "Title", ("ours", "theirs"), open, (), rival="theirs", why="They poll.")


def test_a_section_s_table_has_medians_and_compares_within_rounds() -> None:
    lines = "".join(_section().table({"quiet": ROUNDS, "busy": ROUNDS[:1]})).splitlines()
    assert "Title" in lines
    rows = ["| ours | 300 / 300 | 1.00x / 1.00x |", "| theirs | 100 / 100 | 2.00x / 3.00x |"]
    assert rows == lines[-2:]


def test_a_section_says_where_its_rival_is_ahead_and_why() -> None:
    behind = [{"ours": {"rate": 50.0}, "theirs": {"rate": 100.0}}]
    said = "".join(_section().behind({"quiet": ROUNDS, "busy": behind}))
    assert "- Title (0.50x, busy). They poll.\n" == said
    assert "" == "".join(_section().behind({"quiet": ROUNDS}))


def test_readme_has_the_medians_of_three_locks_with_their_longest_waits() -> None:
    labels = (contests.US, contests.REDIS_PY, contests.PYTHON_REDIS_LOCK)
    seen = {contests.RATE: 1234.5, contests.LONGEST: 6.914}
    rounds = {"quiet": [dict.fromkeys(labels, seen)], "busy": [dict.fromkeys(labels, seen)]}
    _, _, *rows = contests.readme({"one": rounds, "held": rounds})
    assert [3 * "| 1,234 (6.91 ms) " + "|\n"] * 3 == [row[row.index(" |") + 1 :] for row in rows]


def test_an_acquire_counts_if_it_was_granted_in_time_and_its_wait_counts_always() -> None:
    @contextmanager
    def late() -> Iterator[None]:
        time.sleep(0.05)
        yield

    count, waits_us = work(late, seconds=0.02)
    assert (0, 1) == (count, len(waits_us))
    assert waits_us[0] >= 50_000
    with override_locks("granted"):
        lock = Lock("benchmark")
        assert 1 == work(lambda: lock, seconds=0.02, hold=0.03)[0]


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
