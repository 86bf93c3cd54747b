"""The tables that programs write into the docs, each between two comments."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXPLAIN = ROOT / "docs" / "explain"
PAGES = {
    "benchmark": EXPLAIN / "benchmarks.md",
    "benchmark of 10": ROOT / "README.md",
    "faults": EXPLAIN / "evidence.md",
}
"""The page of each table."""


def write_between(name: str, text: str) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->`` in its page.

    Raises:
        ValueError: The page has no such pair of comments.
    """
    page = PAGES[name]
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    written, count = re.subn(
        f"{start}.*{end}",
        lambda _: f"{start}\n{text}{end}",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if count != 1:
        raise ValueError(f"{page} must have {start} and {end} once, not {count} times.")
    page.write_text(written, encoding="utf-8")
