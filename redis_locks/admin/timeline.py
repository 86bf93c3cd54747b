"""The picture of a lock's last minutes or hours.

Holds as bars, waits as lines above them, troubles as marks.

Lengths are seconds. The page's script moves the part that shows, so that the edge at the right is
now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from redis_locks.inspection import LockInfo
from redis_locks.inspection.localized_times import latency
from redis_locks.statistics import Event, PastHold
from redis_locks.statistics.usual import Usual
from redis_locks.values.text import printable


@dataclass(frozen=True, slots=True)
class Span:
    """How far back the page of a lock looks.

    Attributes:
        name: Its name in the page's address.
        seconds: Its length.
        label: Its length on the link that chooses it.
        title: What the picture is called, in the reader's language.
        axis: The times below the picture, from its left edge to now, in the reader's language.
    """

    name: str
    seconds: int
    label: str
    title: object
    axis: tuple[object, ...]


_NOW = pgettext_lazy("locks", "now")
SPANS: Mapping[str, Span] = {
    span.name: span
    for span in (
        Span(
            "5m",
            300,
            "5 min",
            gettext_lazy("The last 5 minutes"),
            (gettext_lazy("5 min ago"), "4 min", "3 min", "2 min", "1 min", _NOW),
        ),
        Span(
            "1h",
            3600,
            "1 h",
            gettext_lazy("The last hour"),
            (gettext_lazy("1 h ago"), "45 min", "30 min", "15 min", _NOW),
        ),
        Span(
            "24h",
            86_400,
            "24 h",
            gettext_lazy("The last 24 hours"),
            (gettext_lazy("24 h ago"), "18 h", "12 h", "6 h", _NOW),
        ),
    )
}
USUAL_SPAN = SPANS["1h"]

HAND_OFF = 0.05
"""Seconds that two holds may seem to overlap: each process tells of a hand-off by its own clock."""

MOST_LANES = 6
"""How many holds at once have a lane of their own; further ones share the last."""

MOST_WAITS = 25
"""How many of the present waits are drawn: those of the first waiters."""

_LANE, _GAP, _MARKS = 20, 4, 16
_FAR = 36_000
"""How long the bar of a hold that goes on is: longer than anybody looks at the page without news.
"""

_TROUBLES = {
    "timed_out": gettext_lazy("%(time)s: waited in vain: %(who)s"),
    "deadlock": gettext_lazy("%(time)s: ended by a deadlock: %(who)s"),
    "lost": gettext_lazy("%(time)s: lost: %(who)s"),
    "force_released": gettext_lazy("%(time)s: force-released: %(who)s"),
    "cancelled": gettext_lazy("%(time)s: cancelled: %(who)s"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A hold or a wait.

    Texts, for no reader's separators fit SVG; `look` is "past", "lost", "now" or "wait".
    """

    x: str
    width: str
    y: int
    look: str
    title: str
    is_long: bool = False
    """Whether it is a hold that exceeds the lock's usual ones."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that went wrong."""

    x: str
    title: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture, which begins at `began` on the server's clock.

    All lengths count from there.
    """

    span: Span
    began: str
    height: int
    bars: tuple[Bar, ...]
    waits: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    summary: str

    @property
    def box(self) -> str:
        """The part that shows, as the attribute of an SVG."""
        return f"0 0 {self.span.seconds} {self.height}"


def timeline(
    lock: LockInfo,
    past: Sequence[PastHold],
    events: Sequence[Event],
    *,
    span: Span = USUAL_SPAN,
    usual: Usual | None = None,
) -> Timeline:
    """Return the picture of the time before now, which is when the lock was read.

    Args:
        lock: Who holds it now.
        past: The holds that have ended.
        events: What happened to it.
        span: How much time it shows.
        usual: How long the lock is held as a rule, if that is known.
    """
    at, began = lock.at, lock.at - span.seconds
    spans = [
        (hold.began, hold.ended, "lost" if hold.outcome == "lost" else "past", hold.who)
        for hold in past
        if hold.ended > began
    ]
    spans += [(at - holder.held_for, at + _FAR, "now", str(holder)) for holder in lock.holders]
    lanes: list[float] = []
    bars = [_bar(hold, began, at, lanes, usual) for hold in sorted(spans)]
    marks = [
        Mark(f"{event.at - began:.1f}", str(_TROUBLES[event.kind]) % _facts(event.at, event.who))
        for event in events
        if event.kind in _TROUBLES and event.at > began
    ]
    ended = sum(bar.look != "now" for bar in bars)
    lost = sum(bar.look == "lost" for bar in bars)
    return Timeline(
        span,
        f"{began:.3f}",
        max(1, len(lanes)) * (_LANE + _GAP) + _MARKS,
        tuple(bars),
        tuple(_waits(lock, events, span.seconds)),
        tuple(marks),
        _(
            "%(span)s. Holds that ended: %(ended)s, of which lost: %(lost)s. Holds that go on: "
            "%(held)s. Longer than usual: %(long)s. Events that were trouble: %(trouble)s."
        )
        % {
            "span": span.title,
            "ended": ended,
            "lost": lost,
            "held": len(bars) - ended,
            "long": sum(bar.is_long for bar in bars),
            "trouble": len(marks),
        },
    )


def _waits(lock: LockInfo, events: Iterable[Event], span: int) -> Iterator[Bar]:
    at, began = lock.at, lock.at - span
    for event in events:
        if event.kind != "lost" and event.seconds and event.at > began:
            facts = {
                **_facts(event.at - event.seconds, event.who),
                "length": latency(event.seconds),
            }
            title = _("%(time)s: waited for %(length)s: %(who)s") % facts
            yield _line(event.at - event.seconds - began, event.at - began, title)
    for waiter in lock.waiters[:MOST_WAITS]:
        title = _("%(time)s: waiting since then: %(who)s") % _facts(at - waiter.waited, str(waiter))
        yield _line(span - waiter.waited, span + _FAR, title)


def _line(start: float, end: float, title: str) -> Bar:
    start = max(0.0, start)
    return Bar(f"{start:.2f}", f"{end - start:.2f}", _MARKS - 6, "wait", title)


def _bar(
    hold: tuple[float, float, str, str],
    began: float,
    at: float,
    lanes: list[float],
    usual: Usual | None,
) -> Bar:
    acquired, end, look, who = hold
    start = max(acquired, began)
    free = (place for place, busy in enumerate(lanes) if busy <= acquired + HAND_OFF)
    lane = min(next(free, len(lanes)), MOST_LANES - 1)
    lanes[lane : lane + 1] = [end]
    is_long = usual is not None and usual.is_exceeded_by(min(end, at) - acquired)
    title = str(_HOLDS[look]) % {**_facts(acquired, who), "length": latency(end - acquired)}
    return Bar(
        f"{start - began:.2f}",
        f"{end - start:.2f}",
        _MARKS + lane * (_LANE + _GAP),
        look,
        f"{title} ({_('longer than usual')})" if is_long else title,
        is_long,
    )


_HOLDS = {
    "now": gettext_lazy("%(time)s: still held by %(who)s"),
    "lost": gettext_lazy("%(time)s: held for %(length)s, then lost, by %(who)s"),
    "past": gettext_lazy("%(time)s: held for %(length)s by %(who)s"),
}


def _facts(at: float, who: str) -> dict[str, str]:
    time = date_format(localtime(datetime.fromtimestamp(at, UTC)), "H:i:s T")
    return {"time": time, "who": printable(who)}
