"""What a comparison is to measure, within bounds that keep a run short."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Self

from demo_project.bank.strategies import STRATEGIES, available, label_of

from .book import LOCKS, ON_ANY_SERVER, TableTurn, turns_of

ACCOUNTS = {"hot": 2, "spread": 1000}
WORKERS = (1, 2, 5, 10)
MAX_WORKERS = 20
MIN_SECONDS = 0.05
MAX_SECONDS = 10.0
# Many short rounds, each strategy in turn in each: so a change of the machine's load meets all
# alike.
DEFAULT_SECONDS = 0.15
DEFAULT_ROUNDS = 4
MAX_ROUNDS = 20
DEFAULT_TABLE_SECONDS = 0.3
# Besides its own time, each measurement creates accounts, warms up and counts the money.
OVERHEAD_SECONDS = 0.15


@dataclass(frozen=True)
class Cell:
    """One measurement: a strategy, a number of workers, ``hot`` or ``spread`` accounts, a round."""

    strategy: str
    workers: int
    accounts: str
    round: int = 1

    def __str__(self) -> str:
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return f"{label_of(self.strategy)}, {workers}, {self.accounts} accounts"


@dataclass(frozen=True)
class Plan:
    """All measurements of one comparison, each lasting ``seconds``, repeated in ``rounds``.

    Before that, each lock of ``table_locks`` is measured for ``table_seconds`` in each round, for
    Table 11.2; 0 leaves the table out.

    Raises:
        ValueError: A number is out of bounds, or a strategy or kind of accounts is unknown.
    """

    seconds: float = DEFAULT_SECONDS
    workers: tuple[int, ...] = WORKERS
    strategies: tuple[str, ...] = field(default_factory=lambda: tuple(available()))
    accounts: tuple[str, ...] = tuple(ACCOUNTS)
    rounds: int = DEFAULT_ROUNDS
    table_seconds: float = 0.0
    table_locks: tuple[str, ...] = ON_ANY_SERVER

    def __post_init__(self) -> None:
        """Refuse a plan that cannot be run."""
        bounds = f"from {MIN_SECONDS} to {MAX_SECONDS:.0f}"
        if not _in_bounds(self.seconds):
            raise ValueError(f"seconds must be {bounds}, not {self.seconds}.")
        if self.table_seconds and not _in_bounds(self.table_seconds):
            raise ValueError(f"table_seconds must be 0 or {bounds}, not {self.table_seconds}.")
        if not 1 <= self.rounds <= MAX_ROUNDS:
            raise ValueError(f"rounds must be from 1 to {MAX_ROUNDS}, not {self.rounds}.")
        if not all(1 <= count <= MAX_WORKERS for count in self.workers):
            raise ValueError(f"workers must be from 1 to {MAX_WORKERS}, not {_join(self.workers)}.")
        self._check_choices()

    def _check_choices(self) -> None:
        for argument, values, known in (
            ("strategies", self.strategies, STRATEGIES),
            ("accounts", self.accounts, ACCOUNTS),
            ("table_locks", self.table_locks, LOCKS),
        ):
            if not set(values) <= set(known):
                raise ValueError(f"{argument} must be among {_join(known)}, not {_join(values)}.")
        for reason in filter(None, (STRATEGIES[name].unavailable() for name in self.strategies)):
            raise ValueError(f"strategies cannot all run here: {reason}")
        for argument in ("workers", "strategies", "accounts"):
            values = getattr(self, argument)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{argument} must be at least one, each once: {_join(values)}.")

    def cells(self) -> Iterator[Cell]:
        """The measurements in the order in which they run."""
        combinations = product(
            range(1, self.rounds + 1), self.accounts, self.workers, self.strategies
        )
        for number, accounts, workers, strategy in combinations:
            yield Cell(strategy, workers, accounts, number)

    def turns(self) -> list[TableTurn]:
        """The measurements of Table 11.2 in the order in which they run."""
        return turns_of(self.table_locks, self.table_seconds, self.rounds)

    def steps(self) -> Iterator[TableTurn | Cell]:
        """Everything in the order in which it runs.

        The table comes first, so that the caller learns at once what is in its way.
        """
        yield from self.turns()
        yield from self.cells()

    def __len__(self) -> int:
        """How many steps there are."""
        cells = len(self.workers) * len(self.strategies) * len(self.accounts) * self.rounds
        return cells + len(self.turns())

    @property
    def estimated_seconds(self) -> float:
        """About how long it takes."""
        return self.estimated_seconds_after(0)

    def estimated_seconds_after(self, steps: int) -> float:
        """About how long the rest takes when so many steps are done."""
        turns = len(self.turns())
        cells = len(self) - max(turns, steps)
        measuring = cells * self.seconds + max(0, turns - steps) * self.table_seconds
        return measuring + (len(self) - steps) * OVERHEAD_SECONDS

    def as_dict(self) -> dict[str, Any]:
        """The plan in JSON's types."""
        return {
            "seconds": self.seconds,
            "workers": list(self.workers),
            "strategies": list(self.strategies),
            "accounts": list(self.accounts),
            "rounds": self.rounds,
            "table_seconds": self.table_seconds,
            "table_locks": list(self.table_locks),
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        """The plan that `as_dict` gave; what is missing has its default.

        Raises:
            ValueError: It is a plan of another version, with strategies that are gone.
        """
        arguments: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in parameters.items()
        }
        return cls(**arguments)


def _in_bounds(seconds: float) -> bool:
    return math.isfinite(seconds) and MIN_SECONDS <= seconds <= MAX_SECONDS


def _join(values: object) -> str:
    return ", ".join(str(value) for value in values) if hasattr(values, "__iter__") else str(values)
