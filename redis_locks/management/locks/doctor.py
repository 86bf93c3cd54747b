"""`manage.py locks doctor`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from redis_locks.diagnosis.checks import REACHABLE, diagnose
from redis_locks.diagnosis.findings import Finding, Level
from redis_locks.management.locks.console import FAILED, UNREACHABLE, Console, fail
from redis_locks.management.locks.report import Report
from redis_locks.management.locks.verb import Verb
from redis_locks.values.text import printable

_STYLES = {Level.OK: "SUCCESS", Level.WARNING: "WARNING", Level.ERROR: "ERROR"}


class Doctor(Verb):
    """What is wrong with the server, and how to put it right."""

    name = "doctor"
    asks_first = False
    help = "Check the server that keeps the locks."
    examples = ("doctor", "doctor --json")
    details = "Says what is wrong and how to put it right. Takes a lock of its own for a moment."

    def run(self, console: Console, **options: Any) -> None:
        """Print a line or more per check; fail if there is an error."""
        findings = diagnose(using=options["using"])
        report = Report.of_all(Finding, findings, lambda width: _text(findings, console, width))
        console.report(report, options["format"])
        errors = [finding for finding in findings if finding.level is Level.ERROR]
        if any(finding.check == REACHABLE for finding in errors):
            fail("Without the server nothing else can be checked.", UNREACHABLE)
        if errors:
            fail(f"{len(errors)} of {len(findings)} checks found an error.", FAILED)


def _text(findings: Sequence[Finding], console: Console, width: int | None) -> Iterator[str]:
    checks = max(len(finding.check) for finding in findings)
    levels = max(len(finding.level) for finding in findings)
    margin = " " * (checks + levels + 4)
    for finding in findings:
        painted = getattr(console.style, _STYLES[finding.level])(finding.level.ljust(levels))
        start = f"{painted}  {finding.check.ljust(checks)}  "
        paragraphs = [finding.message, *([f"Fix: {finding.fix}"] if finding.fix else [])]
        for paragraph in paragraphs:
            for line in _wrapped(printable(paragraph), width and width - len(margin)):
                yield start + line
                start = margin


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    # Whole words, however long: they are commands and addresses to be copied.
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False)
