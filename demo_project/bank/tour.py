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
        'The bank. Press "Race all three" and see what becomes of the money with locks, optimistically, and '
        "without locking. A race in slow motion leaves a queue to look at.",
    ),
    Step(
        "problems:all",
        "What goes wrong with locks, live: freeze or kill a holder, cut its connection, lose a reply. The book's lock "
        "and redis_lock stand side by side.",
    ),
    Step(
        "ledger:start_page",
        "Exactly once: replies are lost and workers are killed, and the ledger has each transfer once.",
    ),
    Step(
        "failover:start_page",
        "Three workers, one job: kill one, and another takes over.",
    ),
    Step(
        "admin:bank_comparison_changelist",
        "The first comparison: the verdict, which method is fastest with how many workers, and how the "
        "book's locks do here (Table 11.2).",
    ),
    Step(
        "map:latest",
        "The map: which way is best with how many accounts, how much work inside, and how far the server is away.",
    ),
    Step(
        "admin:bank_comparison_start",
        "Start a run of your own, with more workers. It goes on if you leave or reload the page.",
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
