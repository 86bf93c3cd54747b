"""What a token asked for or holds, as a script wrote it down; see `_lock.lua`."""

from __future__ import annotations

import json
from typing import NamedTuple, Self

FIELDS = 4
"""How many fields tell people who it is; one more, if there is one, is for scripts: see
`identity.written`.
"""


class Who(NamedTuple):
    """A holder or waiter, for people."""

    host: str
    pid: int
    unit: str
    label: str

    def __str__(self) -> str:
        if not self.host:
            return f"({self.label})"  # nothing else is known
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
            fencing_token, since, mode, lease, _listener, _wait, _size, who = text.split(" ", 7)
            return cls(int(fencing_token), int(since), mode, parse_who(who), int(lease))
        except ValueError:
            return None


def write_who(*fields: object) -> str:
    """Return the fields with a tab between each two, which Redis keeps for each waiter.

    JSON would be longer.

    Each is ASCII and has the escapes of JSON, so none has a tab of its own, or a newline.
    """
    return "\t".join(json.dumps(str(field))[1:-1] for field in fields)


def parse_who(text: str) -> Who | None:
    """Return who wrote the text, or None if we cannot read it."""
    try:
        host, pid, unit, label = map(_unescaped, text.split("\t")[:FIELDS])
        return Who(host, int(pid), unit, label)
    except ValueError:
        return None


def _unescaped(field: str) -> str:
    # Most have no escapes, and reading JSON takes longer than all the rest.
    return str(json.loads(f'"{field}"')) if "\\" in field else field
