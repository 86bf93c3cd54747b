"""Which tests run which lines of the package: a plugin of pytest notes it, and `Reach` answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from time import monotonic
from typing import Final

import coverage
import pytest

RECORD: Final = "MUTANTS_RECORD"
"""The variable with the folder in which a run notes the lines of each test, and its seconds."""

CHOICE: Final = "MUTANTS_CHOICE"
"""The variable with the file that names the tests of a run, in their order."""


class Reach:
    """What a run with `RECORD` left in a folder, for a copy of the package with the same lines."""

    def __init__(self, folder: Path) -> None:
        self._noted = coverage.CoverageData(no_disk=True)
        self.seconds: dict[str, float] = {}
        for process in folder.glob("*.seconds"):
            self.seconds |= json.loads(process.read_text(encoding="utf-8"))
            lines = coverage.CoverageData(str(process.with_suffix(".lines")))
            lines.read()
            self._noted.update(lines)

    def tests_of(self, path: Path, line: int, package: Path) -> set[str]:
        """Return the tests that run that line, or use that script.

        If only imports run it, return those of its file.
        """
        if path.suffix != ".lua":
            return self._at(path, line)
        # A part belongs to many scripts.
        script = "[A-Z_]+" if path.stem.startswith("_") else path.stem.upper()
        name = re.compile(rf"\bscripts\.{script}\b")
        return {test for test in self.seconds if test.startswith("tests/scripts/")}.union(
            *(
                self._at(user.relative_to(package.parent), number)
                for user in package.rglob("*.py")
                for number, text in enumerate(user.read_text(encoding="utf-8").splitlines(), 1)
                if name.search(text)
            )
        )

    def quickest(self, tests: set[str], seconds: float) -> list[str]:
        """Return the quickest of those tests that take no more than so many seconds together."""
        ordered = sorted(tests & self.seconds.keys(), key=lambda test: self.seconds[test])
        ends = accumulate(self.seconds[test] for test in ordered)
        return [test for test, end in zip(ordered, ends, strict=True) if end < seconds]

    def _at(self, path: Path, line: int) -> set[str]:
        noted = self._noted.contexts_by_lineno(str(path))
        # A statement of several lines is noted at some of them.
        before = [each for each in noted if each <= line]
        tests = set(noted[max(before)]) - {""} if before else set()
        return tests or {test for each in noted.values() for test in each if test}


class Recorder:
    """Notes the lines of the package that each test of this process runs."""

    def __init__(self, folder: Path) -> None:
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._file = folder / f"{os.getpid()}.seconds"
        self._lines = coverage.Coverage(
            data_file=str(self._file.with_suffix(".lines")),
            config_file=False,
            source=["redis_locks"],
        )
        self._lines.set_option("run:relative_files", value=True)

    def pytest_collection_finish(self) -> None:
        self._lines.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = monotonic()
        self._lines.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._lines.switch_context("")
            self._seconds[item.nodeid] = monotonic() - began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        if not self._seconds:
            return  # the process that only hands tests out
        self._lines.stop()
        self._lines.save()
        seconds = {test: took for test, took in self._seconds.items() if test not in self._failed}
        self._file.write_text(json.dumps(seconds), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if RECORD in os.environ:
        config.pluginmanager.register(Recorder(Path(os.environ[RECORD])))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHOICE in os.environ:
        chosen = Path(os.environ[CHOICE]).read_text(encoding="utf-8").splitlines()
        place = {test: at for at, test in enumerate(chosen)}
        items[:] = sorted(
            (item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid]
        )
