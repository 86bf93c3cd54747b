"""Two courses of an experiment as timelines.

They show who waits, who believes to hold the lock, and what happens when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from demo_project.bank.live.money import money
from demo_project.bank.processes import Event

from .experiment import LOCKS, Course

WIDTH = 600.0
_MARK_WIDTH = 18.0
_BEGINNINGS = {"asks": "waits", "holds": "holds"}
_ENDINGS = {"holds", "released", "told", "killed", "gone"}
_MARKS = {"wrote", "unwritten", "refused", "told", "frozen", "thawed", "killed", "cut", "lost"}
_TICKS = (0.5, 1, 2, 5)
_MOST_TICKS = 8


@dataclass(frozen=True)
class Span:
    """A bar in a lane: from where, how wide, and what it shows."""

    x: float
    width: float
    kind: str


@dataclass(frozen=True)
class Lane:
    """One process: its bars, and its marks with their places."""

    who: str
    spans: tuple[Span, ...]
    marks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Timeline:
    """One course as the page shows it."""

    lock: str
    label: str
    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str], ...]
    events: tuple[Event, ...]
    balance: str
    is_right: bool
    verdict: str


def timelines_of(courses: Sequence[Course]) -> list[Timeline]:
    """The courses on the same scale of time."""
    longest = max((event.at for course in courses for event in _told(course)), default=1.0)
    scale = WIDTH / (longest * 1.02)
    return [_timeline(course, scale, longest) for course in courses]


def _timeline(course: Course, scale: float, longest: float) -> Timeline:
    step = next((each for each in _TICKS if longest / each <= _MOST_TICKS), _TICKS[-1])
    seconds = [number * step for number in range(int(longest / step) + 1)]
    return Timeline(
        course.lock,
        LOCKS[course.lock],
        tuple(_lane(course, who, scale) for who in "AB"),
        tuple((round(at * scale, 1), f"{at:g} s") for at in seconds),
        tuple(_told(course)),
        money(course.money),
        course.is_right,
        verdict_of(course),
    )


def _told(course: Course) -> list[Event]:
    """The events that have something to say."""
    return [event for event in course.events if event.text]


def _lane(course: Course, who: str, scale: float) -> Lane:
    events = [event for event in course.events if event.who == who]
    return Lane(who, tuple(_spans(events, scale)), tuple(_marks(events, scale)))


def _marks(events: Sequence[Event], scale: float) -> Iterator[tuple[float, str]]:
    """The marks side by side: one that would cover the one before it stands a little later."""
    free = 0.0
    for event in events:
        if event.kind in _MARKS:
            at = max(event.at * scale, free)
            free = at + _MARK_WIDTH
            yield round(at, 1), event.kind


def _spans(events: Sequence[Event], scale: float) -> Iterator[Span]:
    for number, event in enumerate(events):
        kind = _BEGINNINGS.get(event.kind)
        if kind:
            yield _span(kind, event, events[number + 1 :], _ENDINGS, scale)
        elif event.kind == "frozen":
            yield _span("frozen", event, events[number + 1 :], {"thawed"}, scale)


def _span(kind: str, start: Event, later: Sequence[Event], ends: set[str], scale: float) -> Span:
    end = next((event.at for event in later if event.kind in ends), start.at)
    return Span(round(start.at * scale, 1), round(max(0.002, end - start.at) * scale, 1), kind)


def verdict_of(course: Course) -> str:
    """What became of the money, and who knew, in a sentence or two."""
    wrote = [event.who for event in course.events if event.kind == "wrote"]
    first = [event.kind for event in course.events if event.who == "A"]
    if not course.is_right:
        told = " A was told after its withdrawal." if "told" in first else ""
        return f"Overdrawn by {money(-course.money)}: both withdrew.{told}"
    if "unwritten" in first:
        return "Every cent is right: the server refused A's late withdrawal, and A was told."
    if "told" in first and "heard" not in first:
        paid = "was" if "A" in wrote else "was not"
        return (
            f"The money is right, but A saw an error: it cannot know that its withdrawal {paid} "
            "made."
        )
    if "killed" in first:
        seen = any(event.kind == "sees" for event in course.events)
        whom = "B saw who holds the lock" if seen else "B could not see who holds the lock"
        return f"Every cent is right. {whom}, and went on when the lease had ended."
    return "Every cent is right."
