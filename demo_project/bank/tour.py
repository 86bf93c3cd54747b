"""What to click first; a new page of the demo adds its step here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import fill

from django.urls import reverse

LINE = 80


@dataclass(frozen=True)
class Step:
    """One stop of the tour: the name of an address, and what to do there."""

    page: str
    text: str


STEPS = (
    Step(
        "bank:live",
        "The bank: send money, then let a hundred transfers race, with locks, optimistically, and without: look at "
        "the balances, and at who waited for whom.",
    ),
    Step(
        "admin:bank_comparison_changelist",
        'The comparison that has just run. Read "What came out", open the code of a strategy, see whether the '
        "optimistic line falls below the locked one, and where, and how the book's locks do here (Table 11.2).",
    ),
    Step(
        "admin:bank_comparison_start",
        "Start a run of your own, with more workers: it goes on if you leave or reload the page.",
    ),
    Step(
        "admin:redis_locks_lock_changelist",
        "Meanwhile, the locks themselves, live: who holds what, who waits, and for how long.",
    ),
)


def directions(site: str) -> Iterator[str]:
    """The tour in lines for a terminal.

    Args:
        site: Address of the site, without a slash at its end.
    """
    for number, step in enumerate(STEPS, 1):
        yield f" {number}. {site}{reverse(step.page)}"
        yield fill(step.text, LINE, initial_indent="    ", subsequent_indent="    ")
