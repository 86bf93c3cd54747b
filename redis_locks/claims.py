"""What a token asked for or holds, as `write_claim` in `_prelude.lua` wrote it down."""

from __future__ import annotations

import json
from typing import NamedTuple, Self


class Who(NamedTuple):
    """Who holds or waits, for people."""

    host: str
    pid: int
    unit: str
    label: str

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid} {self.unit} ({self.label})"


class Claim(NamedTuple):
    """One claim. `fencing_token` is 0 for a waiter; `since_ms` is server time.

    `lease_ms` is what was asked for when acquiring; 0 if that is not known.
    """

    fencing_token: int
    since_ms: int
    mode: str
    who: Who | None
    lease_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the claim, or None if there is none that we can read."""
        try:
            fencing_token, since, mode, lease, _channel, _give_up_at, _size, who = text.split(
                " ", 7
            )
            return cls(int(fencing_token), int(since), mode, parse_who(who), int(lease))
        except ValueError:
            return None


def parse_who(text: str) -> Who | None:
    """Return who wrote the JSON, or None if we cannot read it."""
    try:
        who = json.loads(text)
        return Who(str(who["host"]), int(who["pid"]), str(who["unit"]), str(who["label"]))
    except (KeyError, TypeError, ValueError):
        return None
