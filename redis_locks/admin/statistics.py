"""The page of figures: which period and order was asked for, the chart's bars, the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from django.contrib.admin.sites import AdminSite

from redis_locks import statistics
from redis_locks.admin.paths import lock_url
from redis_locks.admin.table_rows import short_name
from redis_locks.conf.settings import get_settings
from redis_locks.inspection.filters import Filter
from redis_locks.statistics import LockStatistics, Moment
from redis_locks.statistics.history import ORDERS, ordered
from redis_locks.values.text import latency

MOST_SHOWN = 100
"""How many locks the page shows; how many more there are it says."""

_WIDTH, _HEIGHT = 960, 160
"""Of the chart, in units of its own; the page scales it."""


@dataclass(frozen=True, slots=True)
class FigureRow:
    """The figures of one lock as text; `others` stands for all those not counted by themselves."""

    url: str
    name: str
    figures: LockStatistics
    wait_p50: str
    wait_p99: str
    hold_p50: str
    hold_p99: str

    @classmethod
    def of(cls, found: LockStatistics, site: AdminSite) -> FigureRow:
        """Return the row of a lock on the pages of `site`."""
        times = (found.wait_p50, found.wait_p99, found.hold_p50, found.hold_p99)
        return cls(
            lock_url(site, "change", found.name) if found.name else "",
            short_name(found.name),
            found,
            *("-" if seconds is None else latency(seconds) for seconds in times),
        )


@dataclass(frozen=True, slots=True)
class Bar:
    """One minute, or quarter of an hour, of the chart. Texts, for no reader's separators fit SVG."""

    x: str
    width: str
    acquired_y: str
    acquired_height: str
    contended_y: str
    contended_height: str
    title: str


def stats_context(asked: Mapping[str, str], site: AdminSite) -> dict[str, Any]:
    """Return what the page shows; blocks for two round trips.

    Args:
        asked: "period", "o" for the order, and "q" for a part of the name; what is wrong is as
            good as missing.
        site: Where the pages of locks are.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    period = asked.get("period", "")
    period = cast("statistics.Period", period if period in {"hour", "day"} else "hour")
    order, query = asked.get("o", ""), asked.get("q", "")
    order = order if order in ORDERS else "contended"
    found = statistics.read(period)
    matching = Filter(name=query)
    rows = [row for row in found.locks if matching.keeps_name(row.name)]
    shown = ordered(rows, order)[:MOST_SHOWN]
    if found.others and not query and len(shown) == len(rows):
        shown.append(found.others)
    return {
        "period": period,
        "order": order,
        "query": query,
        "rows": [FigureRow.of(row, site) for row in shown],
        "more": max(0, len(rows) - MOST_SHOWN),
        "counted": bool(found.locks or found.others),
        "counting": get_settings().statistics,
        "bars": bars(found.moments),
        "highest": max((moment.acquired for moment in found.moments), default=0),
        "acquired": sum(moment.acquired for moment in found.moments),
        "contended": sum(moment.contended for moment in found.moments),
        "began": datetime.fromtimestamp(found.moments[0].at, UTC),
        "ended": datetime.fromtimestamp(found.at, UTC),
    }


def bars(moments: Sequence[Moment]) -> list[Bar]:
    """Return a bar for each moment, as high as its acquires are of those of the busiest one."""
    highest = max((max(moment.acquired, moment.contended) for moment in moments), default=0) or 1
    step = _WIDTH / len(moments)

    def height(count: int) -> float:
        # What has happened at all is to be seen.
        return max(1.5, count / highest * _HEIGHT) if count else 0.0

    drawn = []
    for i, moment in enumerate(moments):
        acquired, contended = height(moment.acquired), height(moment.contended)
        began = datetime.fromtimestamp(moment.at, UTC)
        drawn.append(
            Bar(
                x=f"{i * step + step * 0.1:.1f}",
                width=f"{step * 0.8:.1f}",
                acquired_y=f"{_HEIGHT - acquired:.1f}",
                acquired_height=f"{acquired:.1f}",
                contended_y=f"{_HEIGHT - contended:.1f}",
                contended_height=f"{contended:.1f}",
                title=f"{began:%H:%M} UTC: {moment.acquired} acquired, {moment.contended} contended",
            )
        )
    return drawn
