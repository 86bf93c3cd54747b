"""The page of figures: which period and order was asked for, the chart's bars, the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils.formats import date_format, number_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from redis_locks import statistics
from redis_locks.admin.paths import ServerPages
from redis_locks.admin.table_rows import short_name
from redis_locks.conf.settings import get_settings
from redis_locks.inspection.localized_times import latency
from redis_locks.statistics import LockStatistics, Moment
from redis_locks.statistics.history import ORDERS, Period, ordered
from redis_locks.values.name_patterns import WILDCARD

MOST_SHOWN = 100
"""How many locks the page shows; how many more there are it says."""

_WIDTH, _HEIGHT = 960, 160
"""Of the chart, in units of its own; the page scales it."""


def stats_context(asked: Mapping[str, str], pages: ServerPages) -> dict[str, Any]:
    """Return what the page shows; blocks for two round trips.

    Args:
        asked: "period", "o" for the order, and "q" for a part of the name; what is wrong is as
            good as missing.
        pages: The server, and where its pages are.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    period: Period = "day" if asked.get("period") == "day" else "hour"
    query, order = asked.get("q", ""), asked.get("o", "")
    order = order if order in ORDERS else "contended"
    figures = statistics.read(period, using=pages.using, pattern=pattern_of_query(query))
    rows = figures.locks
    shown = ordered(rows, order)[:MOST_SHOWN]
    if figures.others and len(shown) == len(rows):
        shown.append(figures.others)
    highest = _rounded(max(max(each.acquired, each.contended) for each in figures.moments))
    longest = max(max(each.wait_p99 or 0, each.hold_p99 or 0) for each in figures.moments)
    return {
        "period": figures.period,
        "order": order,
        "query": query,
        "rows": [_figures(row, pages) for row in shown],
        "unavailable": any(row.unavailable for row in shown),
        "more": max(0, len(rows) - MOST_SHOWN),
        "counted": bool(figures.locks or figures.others or query),
        "counting": get_settings().statistics,
        "bars": bars(figures.moments, highest),
        "highest": highest,
        "half": number_format(highest / 2 if highest % 2 else highest // 2, force_grouping=True),
        "wait_path": path([each.wait_p99 for each in figures.moments], longest),
        "hold_path": path([each.hold_p99 for each in figures.moments], longest),
        "longest": latency(longest),
        "half_longest": latency(longest / 2),
        "acquired": sum(moment.acquired for moment in figures.moments),
        "contended": sum(moment.contended for moment in figures.moments),
        "began": datetime.fromtimestamp(figures.moments[0].at, UTC),
        "ended": datetime.fromtimestamp(figures.at, UTC),
    }


def _figures(row: LockStatistics, pages: ServerPages) -> dict[str, object]:
    """Return the figures of one lock for its row, with a link to these pages.

    Without a name: those of all others.
    """
    times = {
        field: "-" if (seconds := getattr(row, field)) is None else latency(seconds)
        for field in ("wait_p50", "wait_p99", "hold_p50", "hold_p99")
    }
    url = pages.url("change", row.name) if row.name else ""
    return {"url": url, "name": short_name(row.name), "figures": row, **times}


def pattern_of_query(query: str) -> str | None:
    """Return what `statistics.read` takes for what a user typed.

    A user types a part of the name, or a pattern.
    """
    if not query:
        return None
    return query if WILDCARD in query else f"{WILDCARD}{query}{WILDCARD}"


def path(times: Sequence[float | None], longest: float) -> str:
    """Return the line of a time over the moments, as an SVG path; without figures it breaks off."""
    step, drawn, pen_down = _WIDTH / len(times), [], False
    for place, seconds in enumerate(times):
        if seconds is None:
            pen_down = False
            continue
        y = _HEIGHT * (1 - seconds / longest) if longest else _HEIGHT
        # A point alone is a line of no length, of which the round ends show.
        drawn.append(f"{'L' if pen_down else 'M'}{(place + 0.5) * step:.1f} {y:.1f}h0")
        pen_down = True
    return "".join(drawn)


def _rounded(highest: int) -> int:
    """Return the next number above that reads well on an axis.

    Such are 2, 10, 20, 50, 100 and 200.
    """
    scale = 10
    if highest <= 2:  # noqa: PLR2004
        return 2
    while scale < highest:
        scale *= 10
    return next(bound for bound in (scale // 5, scale // 2, scale) if bound >= highest)


def bars(moments: Sequence[Moment], highest: int) -> list[dict[str, str]]:
    """Return a bar for each moment; `highest` is the number that is as high as the chart.

    All of it is text, for no reader's separators fit SVG.
    """
    step = _WIDTH / len(moments)

    def height(count: int) -> float:
        # What has happened at all is to be seen.
        return max(1.5, count / highest * _HEIGHT) if count else 0.0

    drawn = []
    for i, moment in enumerate(moments):
        acquired, contended = height(moment.acquired), height(moment.contended)
        began = date_format(localtime(datetime.fromtimestamp(moment.at, UTC)), "H:i T")
        counts = {"time": began, "acquired": moment.acquired, "contended": moment.contended}
        drawn.append(
            {
                "x": f"{i * step + step * 0.1:.1f}",
                "width": f"{step * 0.8:.1f}",
                "acquired_y": f"{_HEIGHT - acquired:.1f}",
                "acquired_height": f"{acquired:.1f}",
                "contended_y": f"{_HEIGHT - contended:.1f}",
                "contended_height": f"{contended:.1f}",
                "title": _("%(time)s: %(acquired)s acquired, %(contended)s contended") % counts,
            }
        )
    return drawn
