"""What to click first; a new page of the demo adds its step here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True)
class Step:
    """One stop of the tour: the name of an address, and what to do there."""

    page: str
    text: str


STEPS = (
    Step("bank:live", "The bank: race three methods, and see which one loses money."),
    Step("problems:all", "What goes wrong with locks: freeze or kill a holder, lose a reply."),
    Step("ledger:start_page", "Exactly once, though replies are lost and workers are killed."),
    Step("failover:start_page", "Three workers, one job: kill one, and another takes over."),
    Step("tellers:start_page", "At most three tellers: crash one, and change the permits."),
    Step(
        "admin:bank_comparison_changelist",
        "The first comparison: a verdict, charts, and the book's Table 11.2.",
    ),
    Step("admin:bank_comparison_start", "A run of your own. It goes on if you leave the page."),
    Step(
        "admin:redis_locks_lock_changelist",
        "The locks, live: who holds what, who waits, and for how long.",
    ),
)


def directions(site: str) -> Iterator[str]:
    """The tour in lines for a terminal, few enough to leave the address on a screen of 24 lines.

    Args:
        site: Address of the site, without a slash at its end.
    """
    for number, step in enumerate(STEPS, 1):
        yield f" {number}. {site}{reverse(step.page)}"
        yield f"    {step.text}"
