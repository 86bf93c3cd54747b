"""Draws the diagrams of the docs, as SVG: ``python docs/diagrams.py``.

A test compares the files with what this draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "diagrams"

LEFT, WIDTH, LANE, TOP = 150, 590, 54, 16
NO_ROOM = 85  # percent, beyond which a label stands before its arrow
# Fill and edge of a span. A card of its own, white, makes a diagram readable on dark pages too.
COLOURS = {
    "hold": ("#cfe8d5", "#2f7d46"),
    "wait": ("#fdf0cd", "#a97a00"),
    "stopped": ("#e3e3e8", "#6b6b76"),
    "state": ("#dbe7f7", "#31639c"),
    "refused": ("#f8d7d7", "#b3261e"),
}


class Span(NamedTuple):
    """Something that lasts, from `start` to `end` in percent of the width."""

    start: float
    end: float
    kind: str
    label: str


class Arrow(NamedTuple):
    """A message at a moment, from one lane to another, counted from 0."""

    at: float
    source: int
    target: int
    label: str
    kind: str = "state"


class Diagram(NamedTuple):
    """Lanes with their spans, and the arrows between them."""

    title: str
    lanes: dict[str, list[Span]]
    arrows: list[Arrow]


DIAGRAMS = {
    "fencing": Diagram(
        "A fencing token refuses the late write of a holder that was stopped",
        {
            "holder A": [
                Span(0, 20, "hold", "holds, token 33"),
                Span(20, 84, "stopped", "stopped past the end of its lease"),
                Span(84, 100, "refused", "StaleHold"),
            ],
            "row": [Span(10, 68, "state", "fence = 33"), Span(68, 100, "state", "fence = 34")],
            "holder B": [
                Span(24, 52, "wait", "waits"),
                Span(52, 80, "hold", "holds, token 34"),
            ],
        },
        [
            Arrow(10, 0, 1, "read"),
            Arrow(68, 2, 1, "write, 34"),
            Arrow(92, 0, 1, "write, 33", "refused"),
        ],
    ),
    "hand-off": Diagram(
        "A release hands the lock to the first waiter of the queue",
        {
            "holder A": [Span(0, 45, "hold", "holds")],
            "server": [
                Span(0, 15, "state", "no queue"),
                Span(15, 30, "state", "queue: B"),
                Span(30, 45, "state", "queue: B, C"),
                Span(45, 80, "state", "queue: C"),
                Span(80, 100, "state", "no queue"),
            ],
            "waiter B": [Span(15, 45, "wait", "waits"), Span(45, 80, "hold", "holds")],
            "waiter C": [Span(30, 80, "wait", "waits"), Span(80, 100, "hold", "holds")],
        },
        [
            Arrow(15, 2, 1, "acquire"),
            Arrow(45, 0, 1, "release"),
            Arrow(48, 1, 2, "grant"),
        ],
    ),
    "transaction": Diagram(
        "A lock taken inside atomic() is held until COMMIT has ended",
        {
            "A: atomic()": [Span(0, 62, "state", "transaction, then COMMIT")],
            "A: with block": [Span(10, 38, "state", "the block")],
            "A: the lock": [Span(10, 66, "hold", "held, also after the block")],
            "B": [
                Span(24, 66, "wait", "waits"),
                Span(66, 100, "hold", "holds, reads A's rows"),
            ],
        },
        [],
    ),
    "deadlock": Diagram(
        "The youngest wait of a deadlock ends, and the other session goes on",
        {
            "session 1: lock a": [Span(0, 100, "hold", "holds")],
            "session 1: lock b": [Span(22, 74, "wait", "waits"), Span(74, 100, "hold", "holds")],
            "session 2: lock b": [
                Span(6, 74, "hold", "holds"),
                Span(74, 100, "state", "rolled back"),
            ],
            "session 2: lock a": [
                Span(34, 70, "wait", "waits: the youngest"),
                Span(70, 100, "refused", "DeadlockDetected"),
            ],
        },
        [],
    ),
}


def x_of(percent: float) -> float:
    """Return the place of a moment from the left."""
    return LEFT + WIDTH * percent / 100


def y_of(lane: int) -> float:
    """Return the upper edge of the spans of a lane."""
    return TOP + LANE * lane


def drawn(diagram: Diagram) -> Iterator[str]:
    """Yield the elements of a diagram."""
    height = y_of(len(diagram.lanes))
    width = LEFT + WIDTH + 16
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" role="img">'
    )
    yield f"<title>{escape(diagram.title)}</title>"
    yield "<style>text{font:13px system-ui,sans-serif;fill:#1d1d24}</style>"
    yield f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
    for lane, (name, spans) in enumerate(diagram.lanes.items()):
        yield f'<text x="{LEFT - 14}" y="{y_of(lane) + 19}" text-anchor="end">{escape(name)}</text>'
        for start, end, kind, label in spans:
            fill, edge = COLOURS[kind]
            at, long = x_of(start), WIDTH * (end - start) / 100
            yield (
                f'<rect x="{at:g}" y="{y_of(lane)}" width="{long:g}" height="28" rx="4" '
                f'fill="{fill}" stroke="{edge}"/>'
            )
            yield (
                f'<text x="{at + long / 2:g}" y="{y_of(lane) + 19}" text-anchor="middle">'
                f"{escape(label)}</text>"
            )
    for at, source, target, label, kind in diagram.arrows:
        edge, down = COLOURS[kind][1], target > source
        begin, end = (
            (y_of(source) + 28, y_of(target)) if down else (y_of(source), y_of(target) + 28)
        )
        tip = end - 7 if down else end + 7
        x = x_of(at)
        yield f'<path d="M{x:g} {begin:g}V{tip:g}" stroke="{edge}" stroke-width="1.5"/>'
        yield f'<path d="M{x:g} {end:g}l-4 {tip - end:g}h8z" fill="{edge}"/>'
        middle = (begin + end) / 2 + 4
        side = f'x="{x - 7:g}" text-anchor="end"' if at > NO_ROOM else f'x="{x + 7:g}"'
        yield f'<text {side} y="{middle:g}">{escape(label)}</text>'
    yield "</svg>"


def pictures() -> dict[str, str]:
    """Return the text of each file."""
    return {f"{name}.svg": "\n".join(drawn(of)) + "\n" for name, of in DIAGRAMS.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pictures().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
