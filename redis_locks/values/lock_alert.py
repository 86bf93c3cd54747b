"""One rule of ``REDIS_LOCKS["ALERTS"]``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, get_args

from redis_locks.values.arguments import one_of

Rule = Literal["oldest_wait", "long_hold", "lost", "deadlocks", "server"]
Severity = Literal["warning", "critical"]

MOST_WITHIN = 3600
"""Seconds for which the statistics keep minutes."""

_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class LockAlert:
    """When to call somebody.

    Args:
        rule: What is looked at: "oldest_wait": the wait of a lock's first waiter, in seconds;
            "long_hold": how long a holder has held a lock, in seconds; it must also be more than
            three times the lock's usual hold (the 99th percentile); "lost": how many holds were
            lost; "deadlocks": how many deadlocks were resolved; "server": whether the server cannot
            be asked, may evict locks, or has little memory left.
        above: It fires above this many seconds or events; of no use to "server".
        severity: "warning" or "critical"; the log line's level follows from it.
        locks: Only locks whose name matches; an asterisk stands for any text.
        waiters: For "oldest_wait", only locks with so many waiters or more.
        within: For "lost" and "deadlocks", count the events of so many seconds, 60 to 3600, by
            whole minutes.
        label: Tells this rule from the others, in signals and log lines; by default made from rule,
            bound and locks.

    Raises:
        TypeError, ValueError: An argument is wrong; the text names it, its value and the fix.
    """

    rule: Rule
    above: float = 0.0
    severity: Severity = "warning"
    locks: str = "*"
    waiters: int = 1
    within: float = 300.0
    label: str = ""

    def __post_init__(self) -> None:
        one_of(*get_args(Rule))(self.rule, "rule of a LockAlert")
        one_of(*get_args(Severity))(self.severity, "severity of a LockAlert")
        _number("above", self.above, 0)
        _number("waiters", self.waiters, 1)
        if self.waiters != int(self.waiters):
            msg = f"waiters of a LockAlert must be a whole number, not {self.waiters!r}"
            raise ValueError(msg)
        _number("within", self.within, 60, MOST_WITHIN)
        for argument in ("locks", "label"):
            value = getattr(self, argument)
            if not isinstance(value, str):
                msg = f"{argument} of a LockAlert must be a string, not {value!r}"
                raise TypeError(msg)
        if not self.label:
            bound = "" if self.rule == "server" else f" above {self.above:g}"
            locks = "" if self.locks == "*" else f" of {self.locks}"
            object.__setattr__(self, "label", f"{self.rule}{bound}{locks}")


def _number(argument: str, value: object, least: float, most: float = _MOST) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        msg = f"{argument} of a LockAlert must be a number, not {value!r}"
        raise TypeError(msg)
    if not least <= value <= most:
        bounds = f"from {least:g} to {most:g}" if most < _MOST else f"finite and at least {least:g}"
        msg = f"{argument} of a LockAlert must be {bounds}, not {value!r}"
        raise ValueError(msg)


DEFAULT_ALERTS = (
    LockAlert("oldest_wait", above=300, waiters=3),
    LockAlert("oldest_wait", above=600, waiters=3, severity="critical"),
    LockAlert("long_hold", above=60),
    LockAlert("lost", within=300, severity="critical"),
    LockAlert("deadlocks", within=300),
    LockAlert("deadlocks", above=5, within=60, severity="critical"),
    LockAlert("server", severity="critical"),
)
"""The rules of projects that give none: waits and holds as pganalyze and PgHero warn of them, and
any loss.
"""
