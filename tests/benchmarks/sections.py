"""What a section of the benchmark is: subjects measured in turn, and what is wanted of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from statistics import median
from typing import NamedTuple

from demo_project.benchmark.measurement import client_pool
from demo_project.benchmark.pool import WorkerPool
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks import quiet

CLIENTS = 10
"""Most client processes of a section."""

Figures = Mapping[str, float]
"""What was seen of one subject, by the heading of its column; the first figure is what is compared.
"""

Round = Mapping[str, Figures]
"""Each subject measured once, one right after the other."""

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

    def row(self, ways: Sequence[Sequence[Round]]) -> tuple[bool, str]:
        """Return whether it was seen each way of measuring, and its row: the median of the rounds, and the range."""
        wanted = f"at {'most' if self.most else 'least'} {self.form.format(self.bound)}"
        found = [self._cell(rounds) for rounds in ways]
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
    """Where it is measured: a server and clients, on processors of their own if `pinned`.

    Args:
        stack: Ends all of it.
        seconds: Length of one run.
        pinned: Whether server and clients have a processor each.
    """

    def __init__(self, stack: ExitStack, seconds: float, *, pinned: bool) -> None:
        self.seconds = seconds
        self._stack = stack
        self._pinned = pinned
        if pinned:
            stack.enter_context(quiet.on_clients_processor())

    @cached_property
    def server(self) -> EmbeddedServer:
        """The server of all sections."""
        server = self._stack.enter_context(EmbeddedServer(use_environment=False))
        if self._pinned and server.pid is not None:
            quiet.pin(server.pid, quiet.SERVER)
        # Where workers look.
        os.environ["REDIS_LOCKS_TEST_URL"] = server.url
        return server

    @cached_property
    def pool(self) -> WorkerPool:
        """Client processes of `demo_project.benchmark`."""
        return self._stack.enter_context(client_pool(CLIENTS, module="tests.benchmarks.bare"))


class Section(NamedTuple):
    """Subjects that are measured in turn.

    Attributes:
        key: What ``--only`` calls it.
        title: What people read.
        subjects: What is measured, by the names that people read.
        open: Given the place, a context of what measures one subject once.
        wanted: What is to be seen.
        compared: Heading of the column that compares the first subject with each; "" without one.
    """

    key: str
    title: str
    subjects: Sequence[str]
    open: Callable[[Place], AbstractContextManager[Measure]]
    wanted: Sequence[Wanted]
    compared: str = ""

    def rounds(self, place: Place, repeat: int) -> list[Round]:
        """Measure each subject `repeat` times, in turn."""
        with self.open(place) as measure:
            return [{subject: measure(subject) for subject in self.subjects} for _ in range(repeat)]

    def table(self, rounds: Sequence[Round]) -> Iterator[str]:
        """Yield the lines of a table of medians; a comparison is the median of those within a round."""
        columns = list(rounds[0][self.subjects[0]])
        heads = [*columns, *([self.compared] if self.compared else [])]
        yield f"\n{self.title}, median of {len(rounds)} rounds\n\n"
        yield f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}\n"
        for subject in self.subjects:
            cells = [
                _plain(median(round_[subject][column] for round_ in rounds)) for column in columns
            ]
            if self.compared:
                cells.append(
                    f"{median(ratio(round_, self.subjects[0], subject) for round_ in rounds):.2f}x"
                )
            yield f"| {subject} | {' | '.join(cells)} |\n"


def ratio(round_: Round, ours: str, theirs: str) -> float:
    """Return how many times the other's first figure ours is."""
    mine, other = (next(iter(round_[subject].values())) for subject in (ours, theirs))
    # Locks that poll may get nothing at all in a short run.
    return mine / max(other, 1.0)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
