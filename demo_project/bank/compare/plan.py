"""What a comparison is to measure, within bounds that keep a run short."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from demo_project.bank.strategies import STRATEGIES, available

ACCOUNTS = {"hot": 2, "spread": 1000}
WORKERS = (1, 2, 5, 10)
MAX_WORKERS = 20
MIN_SECONDS = 0.05
MAX_SECONDS = 10.0
DEFAULT_SECONDS = 1.0


@dataclass(frozen=True)
class Cell:
    """One measurement: a strategy, a number of workers, and ``hot`` or ``spread`` accounts."""

    strategy: str
    workers: int
    accounts: str


@dataclass(frozen=True)
class Plan:
    """All measurements of one comparison, each lasting ``seconds``.

    Raises:
        ValueError: A number is out of bounds, or a strategy or kind of accounts is unknown.
    """

    seconds: float = DEFAULT_SECONDS
    workers: tuple[int, ...] = WORKERS
    strategies: tuple[str, ...] = field(default_factory=lambda: tuple(available()))
    accounts: tuple[str, ...] = tuple(ACCOUNTS)

    def __post_init__(self) -> None:
        """Refuse a plan that cannot be run."""
        if not (math.isfinite(self.seconds) and MIN_SECONDS <= self.seconds <= MAX_SECONDS):
            raise ValueError(
                f"seconds must be from {MIN_SECONDS} to {MAX_SECONDS:.0f}, not {self.seconds}."
            )
        if not all(1 <= count <= MAX_WORKERS for count in self.workers):
            raise ValueError(f"workers must be from 1 to {MAX_WORKERS}, not {_join(self.workers)}.")
        for argument, values, known in (
            ("strategies", self.strategies, STRATEGIES),
            ("accounts", self.accounts, ACCOUNTS),
        ):
            if not set(values) <= set(known):
                raise ValueError(f"{argument} must be among {_join(known)}, not {_join(values)}.")
        for argument in ("workers", "strategies", "accounts"):
            values = getattr(self, argument)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{argument} must be at least one, each once: {_join(values)}.")

    def cells(self) -> Iterator[Cell]:
        """The measurements in the order in which they run."""
        for accounts in self.accounts:
            for workers in self.workers:
                for strategy in self.strategies:
                    yield Cell(strategy, workers, accounts)

    def __len__(self) -> int:
        """How many measurements there are."""
        return len(self.workers) * len(self.strategies) * len(self.accounts)

    def as_dict(self) -> dict[str, Any]:
        """The plan in JSON's types."""
        return {
            "seconds": self.seconds,
            "workers": list(self.workers),
            "strategies": list(self.strategies),
            "accounts": list(self.accounts),
        }


def _join(values: object) -> str:
    return ", ".join(str(value) for value in values) if hasattr(values, "__iter__") else str(values)
