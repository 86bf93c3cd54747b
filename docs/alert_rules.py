"""Writes the rules for Prometheus: ``python docs/alert_rules.py``.

A test compares the file with what this writes.

The bounds are those of `DEFAULT_ALERTS`, which hold for `check_alerts`. So the two cannot disagree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from redis_locks.values.lock_alert import DEFAULT_ALERTS, LockAlert

FILE = Path(__file__).parent / "monitoring" / "alerts.yml"
HEAD = """\
# Alerting rules for Prometheus, of the metrics of redis_locks: \
give this file as one of `rule_files`.
# The rules of the group `redis_locks_server` need ServerMetrics: see docs/howto/alerts.md.
# docs/alert_rules.py writes this file.
groups:
"""


class Kind(NamedTuple):
    """How Prometheus sees a rule; `expression` has the fields of a `LockAlert`."""

    rule: str
    group: str
    name: str
    expression: str
    summary: str
    description: str


KINDS = [
    Kind(
        "server",
        "server",
        "ServerDown",
        "redis_locks_up == 0",
        "The server that keeps the locks cannot be asked.",
        "Run `manage.py locks doctor`.",
    ),
    Kind(
        "server",
        "server",
        "ServerMemory",
        "redis_locks_memory_warning == 1",
        "The server may evict held locks, or has little memory left.",
        "Run `manage.py locks doctor`; it names the setting to change.",
    ),
    Kind(
        "oldest_wait",
        "server",
        "WaitLong",
        "redis_locks_oldest_wait_seconds > {above:g} and redis_locks_waiting >= {waiters}",
        "A wait lasts {{ $value | humanizeDuration }}.",
        "Run `manage.py locks list`; the lock with the longest wait comes first.",
    ),
    Kind(
        "lost",
        "processes",
        "HoldLost",
        "sum by (lock) (increase(redis_locks_hold_seconds_count"
        '{{outcome="lost"}}[{within:g}s])) > {above:g}',
        "A hold of {{ $labels.lock }} was lost while its block ran.",
        "Two blocks may have run at once. Look at the log, and at "
        "`manage.py locks stats --sort lost`.",
    ),
    Kind(
        "deadlocks",
        "processes",
        "Deadlock",
        "sum by (lock) (increase(redis_locks_wait_seconds_count"
        '{{outcome="deadlock"}}[{within:g}s])) > {above:g}',
        "A deadlock was resolved: a wait for {{ $labels.lock }} was ended.",
        "Take the locks in one order, or as one set. The log names the circle.",
    ),
]
"""What Prometheus can see. It does not know a lock's usual hold, which `long_hold` compares."""

WAITS_IN_VAIN = """\
      - alert: RedisLocksWaitsInVain
        expr: >-
          sum by (lock) (rate(redis_locks_wait_seconds_count{outcome="timed_out"}[10m]))
          / sum by (lock) (rate(redis_locks_wait_seconds_count[10m])) > 0.05
        for: 10m
        labels: {severity: warning}
        annotations:
          summary: "{{ $value | humanizePercentage }} of the acquires of {{ $labels.lock }} \
wait in vain."
          description: Hold it for a shorter time, or lock smaller things. \
See `manage.py locks stats --sort hold`.
"""
"""A rate, which only Prometheus has."""


def rules() -> str:
    """Return the text of the file."""
    groups = (
        f"  - name: redis_locks_{group}\n    rules:\n{''.join(_rules(group))}"
        for group in ("server", "processes")
    )
    return HEAD + "".join(groups) + WAITS_IN_VAIN


def _rules(group: str) -> Iterator[str]:
    seen: set[str] = set()
    for alert in DEFAULT_ALERTS:
        for kind in KINDS:
            if (kind.rule, kind.group) == (alert.rule, group):
                yield _rule(alert, kind, "Critical" if kind.name in seen else "")
                seen.add(kind.name)


def _rule(alert: LockAlert, kind: Kind, more: str) -> str:
    bounds = {"above": alert.above, "waiters": alert.waiters, "within": alert.within}
    return f"""\
      - alert: RedisLocks{kind.name}{more}
        expr: {kind.expression.format(**bounds)}
        labels: {{severity: {alert.severity}}}
        annotations:
          summary: {json.dumps(kind.summary)}
          description: {kind.description}
"""


if __name__ == "__main__":
    FILE.write_text(rules(), encoding="utf-8")
