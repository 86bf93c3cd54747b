"""What a map measures: a grid of accounts, work inside and network latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Self

from demo_project.bank.compare.plan import MAX_ROUNDS, MAX_SECONDS, MIN_SECONDS
from demo_project.bank.compare.rankings import LEAST_ROUNDS

CONTENDERS = ("redis_lock", "optimistic", "watch_packed")
"""Each packs its work into two round trips."""
MAX_WORKERS = 10
FEWEST_ACCOUNTS, MOST_ACCOUNTS = 2, 1000
MAX_LATENCY_MS = 5.0
MAX_WORK_MS = 20.0
SHARE_OF_WORK = 4
# Besides its own time, each measurement creates accounts, warms up, and ends its last transfers.
OVERHEAD_SECONDS = 0.2


@dataclass(frozen=True)
class Spot:
    """One measurement: where in the grid, by which strategy, and in which round."""

    latency_ms: float
    work_ms: float
    accounts: int
    strategy: str
    round: int


@dataclass(frozen=True)
class Survey:
    """One map. Its grid goes from the least of everything up to these values.

    Attributes:
        workers: How many processes transfer money at once.
        accounts: The most accounts that they do so between.
        latency_ms: The longest round trip to the server.
        work_ms: The longest work between reading and writing.
        seconds: How long each measurement lasts.
        rounds: How often all of it is measured, in turn.

    Raises:
        ValueError: A number is out of bounds.
    """

    workers: int = 4
    accounts: int = MOST_ACCOUNTS
    latency_ms: float = 1.0
    work_ms: float = 4.0
    seconds: float = 0.2
    rounds: int = LEAST_ROUNDS

    def __post_init__(self) -> None:
        """Refuse a survey that cannot be made."""
        for name, least, most in (
            ("workers", 1, MAX_WORKERS),
            ("accounts", FEWEST_ACCOUNTS, MOST_ACCOUNTS),
            ("latency_ms", 0, MAX_LATENCY_MS),
            ("work_ms", 0, MAX_WORK_MS),
            ("seconds", MIN_SECONDS, MAX_SECONDS),
            ("rounds", 1, MAX_ROUNDS),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} must be from {least:g} to {most:g}, not {value:g}.")

    @property
    def all_accounts(self) -> tuple[int, ...]:
        """The columns of the grid."""
        return *(count for count in (2, 10, 100) if count < self.accounts), self.accounts

    @property
    def all_work_ms(self) -> tuple[float, ...]:
        """The rows of the grid."""
        middle = self.work_ms / SHARE_OF_WORK
        return tuple(sorted({0.0, self.work_ms} | ({middle} if middle >= 1 else set())))

    @property
    def all_latency_ms(self) -> tuple[float, ...]:
        """The grids: without a delay, and with it."""
        return tuple(sorted({0.0, self.latency_ms}))

    def spots(self) -> Iterator[Spot]:
        """The measurements in the order in which they run: every round is over the whole grid."""
        for number, latency, work, accounts, strategy in product(
            range(1, self.rounds + 1),
            self.all_latency_ms,
            self.all_work_ms,
            self.all_accounts,
            CONTENDERS,
        ):
            yield Spot(latency, work, accounts, strategy, number)

    def __len__(self) -> int:
        """How many measurements there are."""
        cells = len(self.all_latency_ms) * len(self.all_work_ms) * len(self.all_accounts)
        return cells * len(CONTENDERS) * self.rounds

    @property
    def estimated_seconds(self) -> float:
        """About how long it takes."""
        return len(self) * (self.seconds + OVERHEAD_SECONDS)

    def as_dict(self) -> dict[str, Any]:
        """The survey in JSON's types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        """The survey that `as_dict` gave."""
        return cls(**parameters)
