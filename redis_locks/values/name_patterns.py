"""Names that differ only in numbers and ids belong together: they come from one template."""

from __future__ import annotations

import re
from functools import lru_cache

WILDCARD = "*"

_ID = re.compile(
    r"""
    [0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}   # a UUID
    | (?<![0-9A-Za-z])(?=[A-Za-z]*[0-9])[0-9a-fA-F]{12,}(?![0-9A-Za-z])   # a digest
    | [0-9]+
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=50_000)
def pattern_of(name: str) -> str:
    """Return the name with an asterisk for each number and id: "account:*" for "account:17"."""
    return _ID.sub(WILDCARD, name)


@lru_cache(maxsize=100)
def _matcher(pattern: str) -> re.Pattern[str]:
    parts = map(re.escape, pattern.casefold().split(WILDCARD))
    return re.compile(".*".join(parts), re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name matches, in upper or lower case; an asterisk stands for any text."""
    return _matcher(pattern).fullmatch(name.casefold()) is not None
