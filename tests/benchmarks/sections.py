"""What a section of the benchmark is: subjects measured in turn, and what is wanted of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property
from statistics import median
from typing import Final, NamedTuple

from demo_project.benchmark.measurement import GRACE_SECONDS
from demo_project.benchmark.pool import WorkerPool
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks import processors

CLIENTS = 10
"""Most client processes of a section."""

MACHINES: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "quiet": nullcontext,
    "busy": processors.busy,
}
"""What else runs meanwhile: nothing, or a process that spins on each of both processors."""

Figures = Mapping[str, float]
"""What was seen of one subject, by the heading of its column; the first figure is what is compared.
"""

Round = Mapping[str, Figures]
"""Each subject measured once, one right after the other."""

Rounds = Mapping[str, Sequence[Round]]
"""The rounds on each machine of `MACHINES`."""

Measure = Callable[[str], Figures]


class Wanted(NamedTuple):
    """A figure that is to be seen.

    Attributes:
        label: What it is.
        seen: Takes it from one round; KeyError for a subject that is not installed.
        bound: What it may be at least, or at most.
        most: Whether `bound` is the most.
        form: How it is written.
    """

    label: str
    seen: Callable[[Round], float]
    bound: float
    most: bool = False
    form: str = "{:.2f}x"

    def row(self, rounds: Rounds) -> tuple[bool, str]:
        """Return whether each machine showed it, and its row: median of the rounds, and range."""
        wanted = f"at {'most' if self.most else 'least'} {self.form.format(self.bound)}"
        found = [self._cell(of_machine) for of_machine in rounds.values()]
        cells = " | ".join(cell for _, cell in found)
        return all(seen for seen, _ in found), f"| {self.label} | {wanted} | {cells} |\n"

    def _cell(self, rounds: Sequence[Round]) -> tuple[bool, str]:
        try:
            values = sorted(map(self.seen, rounds))
        except KeyError:
            return True, "not installed"
        middle = median(values)
        good = middle <= self.bound if self.most else middle >= self.bound
        low, mid, high = map(self.form.format, (values[0], middle, values[-1]))
        spread = f" ({low} to {high})" if low != high else ""
        return good, f"{mid}{'' if good else ', MISSED'}{spread}"


class Place:
    """Where it is measured: a server and clients, on a processor each.

    Args:
        stack: Ends all of it.
        seconds: Length of one run.
    """

    def __init__(self, stack: ExitStack, seconds: float) -> None:
        self.seconds = seconds
        self._stack = stack
        stack.enter_context(processors.on_clients_processor())

    @cached_property
    def server(self) -> EmbeddedServer:
        """The server of all sections."""
        server = self._stack.enter_context(EmbeddedServer(use_environment=False))
        if server.pid is not None:
            processors.pin(server.pid, processors.SERVER)
        # Where workers look.
        os.environ["REDIS_LOCKS_TEST_URL"] = server.url
        return server

    @cached_property
    def pool(self) -> WorkerPool:
        """Processes that `crews` describes, each started by itself."""
        return self._stack.enter_context(
            WorkerPool("tests.benchmarks.crews", CLIENTS, grace=GRACE_SECONDS, apart=True)
        )


class Section(NamedTuple):
    """Subjects that are measured in turn.

    Attributes:
        key: What ``--only`` calls it.
        title: What people read.
        subjects: What is measured, by the names that people read; ours first.
        open: Given the place, a context of what measures one subject once.
        wanted: What is to be seen.
        rival: The subject that ours should be ahead of.
        why: Why the rival may be ahead.
    """

    key: str
    title: str
    subjects: Sequence[str]
    open: Callable[[Place], AbstractContextManager[Measure]]
    wanted: Sequence[Wanted]
    rival: str
    why: str

    def rounds(self, place: Place, repeat: int, machines: Sequence[str]) -> Rounds:
        """Measure each subject `repeat` times on each machine, all in turn."""
        found: dict[str, list[Round]] = {machine: [] for machine in machines}
        with self.open(place) as measure:
            for _ in range(repeat):
                for machine, rounds in found.items():
                    with MACHINES[machine]():
                        rounds.append({subject: measure(subject) for subject in self.subjects})
        return found

    def table(self, rounds: Rounds) -> Iterator[str]:
        """Yield the lines of a table of medians; a comparison is the median within rounds."""
        any_round = next(iter(rounds.values()))[0]
        heads = [*any_round[self.subjects[0]], f"{self.subjects[0]} is"]
        yield f"\n{self.title}\n\n"
        yield f"| {' / '.join(rounds)} | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}\n"
        for subject in self.subjects:
            cells = [
                " / ".join(middle(each, subject, column) for each in rounds.values())
                for column in any_round[subject]
            ]
            compared = " / ".join(f"{self.ahead(each, subject):.2f}x" for each in rounds.values())
            yield f"| {subject} | {' | '.join((*cells, compared))} |\n"

    def ahead(self, rounds: Sequence[Round], other: str) -> float:
        """Return how many times the other's first figure ours is: the median of the rounds."""
        return median(ratio(round_, self.subjects[0], other) for round_ in rounds)

    def behind(self, rounds: Rounds) -> Iterator[str]:
        """Yield a line that says where the rival is ahead, and why."""
        ratios = {machine: self.ahead(each, self.rival) for machine, each in rounds.items()}
        found = [f"{ratio:.2f}x, {machine}" for machine, ratio in ratios.items() if ratio < 1]
        if found:
            yield f"- {self.title} ({'; '.join(found)}). {self.why}\n"


def ratio(round_: Round, ours: str, theirs: str) -> float:
    """Return how many times the other's first figure ours is."""
    mine, other = (next(iter(round_[subject].values())) for subject in (ours, theirs))
    # Locks that poll may get nothing at all in a short run.
    return mine / max(other, 1.0)


def middle(rounds: Sequence[Round], subject: str, column: str) -> str:
    """Return the median of a figure, with three digits or more."""
    value = median(round_[subject][column] for round_ in rounds)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
