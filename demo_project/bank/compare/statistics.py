"""Figures of one measurement, from what its workers report. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from demo_project.benchmark.figures import jain_index, percentile


@dataclass(frozen=True)
class WorkerReport:
    """What one worker did.

    Attributes:
        seconds: How long it worked.
        retries: How often it had to start or ask again, over all its transfers.
        refused: Transfers refused by the bank's rules, such as overdrafts.
        failed: Transfers given up because of contention.
        latencies_us: Duration of each transfer that moved money, in microseconds.
        overdrafts: Transfers that asked for all that their sender had held a moment before, and
            were answered.
        prevented: How many of these were refused, as others had been quicker.
        net: What its transfers put into accounts, less what they took, in cents; at most what may
            be so where nobody knows whether a transfer was made.
    """

    seconds: float
    retries: int
    refused: int
    failed: int
    latencies_us: Sequence[int]
    overdrafts: int = 0
    prevented: int = 0
    net: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """What one measurement found; all durations as the caller of a transfer saw them."""

    seconds: float
    transfers: int
    refused: int
    failed: int
    transfers_per_second: float
    retries_per_transfer: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    fairness: float
    missing_cents: int
    overdrawn: int
    overdrafts: int
    prevented: int
    round_trips: float | None

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)


def summarise(
    reports: Sequence[WorkerReport],
    before: Mapping[str, int],
    after: Mapping[str, int],
    round_trips: int | None = None,
) -> Figures:
    """Put together the workers' reports, the balances by account, and the count of round trips."""
    latencies = sorted(latency for report in reports for latency in report.latencies_us)
    seconds = max((report.seconds for report in reports), default=0.0)
    count = len(latencies)
    refused = sum(report.refused for report in reports)
    failed = sum(report.failed for report in reports)
    asked = count + refused + failed
    return Figures(
        seconds=round(seconds, 3),
        transfers=count,
        refused=refused,
        failed=failed,
        transfers_per_second=round(count / seconds, 1) if seconds else 0.0,
        retries_per_transfer=round(sum(report.retries for report in reports) / max(count, 1), 3),
        p50_ms=percentile(latencies, 50) / 1000,
        p99_ms=percentile(latencies, 99) / 1000,
        max_ms=percentile(latencies, 100) / 1000,
        fairness=round(jain_index([len(report.latencies_us) for report in reports]), 3),
        missing_cents=sum(before.values()) - sum(after.values()),
        overdrawn=_overdrawn(reports, before, after),
        overdrafts=sum(report.overdrafts for report in reports),
        prevented=sum(report.prevented for report in reports),
        round_trips=None if round_trips is None else round(round_trips / max(asked, 1), 2),
    )


def _overdrawn(
    reports: Sequence[WorkerReport], before: Mapping[str, int], after: Mapping[str, int]
) -> int:
    """How many accounts are below zero, or would be if no transfer had been overwritten."""
    booked = Counter(before)
    for report in reports:
        booked.update(report.net)
    return sum(min(cents, booked[account]) < 0 for account, cents in after.items())
