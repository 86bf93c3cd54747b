"""The tables that programs write into README.md, each between two comments."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def write_between(name: str, text: str) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``.

    Raises:
        ValueError: README has no such pair of comments.
    """
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    written, count = re.subn(
        f"{start}.*{end}",
        lambda _: f"{start}\n{text}{end}",
        README.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if count != 1:
        raise ValueError(f"{README} must have {start} and {end} once, not {count} times.")
    README.write_text(written, encoding="utf-8")
