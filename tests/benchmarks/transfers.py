"""Transfers between two accounts that all want: the bank's strategies, as in its comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from demo_project.bank.strategies import STRATEGIES
from tests.benchmarks.sections import CLIENTS, Figures, Measure, Place, Section, Wanted, ratio

KEYS = {
    STRATEGIES[key].label: key for key in ("redis_lock", "watch_packed", "optimistic", "script")
}
"""Strategies by label, ours first. Each needs as few round trips as it can."""

WHERE = f"{CLIENTS} processes, transfers between 2 accounts"


@contextmanager
def opened(place: Place) -> Iterator[Measure]:
    """Measure strategies, one after the other, with the same processes."""
    # They need models, which Django loads later than this module.
    from demo_project.bank.compare import cells
    from demo_project.bank.compare.plan import Plan
    from demo_project.bank.server import MeasuredServer

    with place.server.client() as client:
        # More rounds than are asked for: whoever measures ends it.
        plan = Plan(min(place.seconds, 10.0), (CLIENTS,), tuple(KEYS.values()), ("hot",), rounds=20)
        cells_of = cells.measure(
            MeasuredServer(client), plan, "benchmark", lambda: None, apart=True
        )
        with closing(cells_of) as measured:

            def measure(subject: str) -> Figures:
                cell, found = next(measured)
                if cell.strategy != KEYS[subject]:
                    raise RuntimeError(f"{cell} was measured instead of {subject}.")
                if found.missing_cents or found.overdrawn:
                    raise RuntimeError(f"{subject} lost money: {found}.")
                return {
                    "transfers/s": found.transfers_per_second,
                    "p99, ms": found.p99_ms,
                    "round trips": found.round_trips or 0.0,
                    "Jain": found.fairness,
                }

            yield measure


def _ahead(theirs: str, least: float, ours: str = "redis_lock") -> Wanted:
    ours, theirs = STRATEGIES[ours].label, STRATEGIES[theirs].label
    return Wanted(
        f"{WHERE}: {ours} against {theirs}", partial(ratio, ours=ours, theirs=theirs), least
    )


SECTION = Section(
    "transfers",
    WHERE,
    tuple(KEYS),
    opened,
    (_ahead("script", 0.4), _ahead("watch_packed", 0.75, "optimistic")),
    rival=STRATEGIES["watch_packed"].label,
    why=(
        "The lock goes to the first waiter, which must get a processor before anybody goes on. "
        "With WATCH, any process that runs goes on, and starts again if another was quicker."
    ),
)
