"""Table 11.2 of "Redis in Action" within a run: the book's two, one of two commands, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from demo_project.bank.server import CannotMeasure
from demo_project.benchmark.book_locks import WHO_COMPARES
from demo_project.benchmark.figures import BOOK_SECONDS, ORIGINAL, Turn, compare, counts
from demo_project.benchmark.measurement import Contest, KeysInTheWay, measure
from demo_project.benchmark.subjects import OURS, SUBJECTS, TWO_COMMANDS
from redis_locks import LockNotAvailable

from .gate import Judgement, Verdict, judge

if TYPE_CHECKING:
    import redis

LOCKS = (ORIGINAL, "lua", TWO_COMMANDS, OURS)
ON_ANY_SERVER = (ORIGINAL, "lua", OURS)
CLIENTS = (1, 2, 5, 10)
PAIRS = (("lua", ORIGINAL), (TWO_COMMANDS, "lua"), (OURS, "lua"), (OURS, TWO_COMMANDS))
"""What a sentence compares with what."""

IN_SENTENCES = {
    ORIGINAL: "the original lock",
    "lua": "the Lua lock",
    TWO_COMMANDS: "SET with compare-and-delete",
    OURS: "redis_locks",
}

NO_FOURTH_LOCK = (
    "A fourth lock of two commands, SET NX PX and compare-and-delete, is not shown: the server has "
    f"no such command. {WHO_COMPARES}"
)


@dataclass(frozen=True)
class TableTurn:
    """One lock, taken by so many processes for a while."""

    lock: str
    clients: int

    def __str__(self) -> str:
        processes = "process" if self.clients == 1 else "processes"
        return f"Table 11.2: {SUBJECTS[self.lock].label}, {self.clients} {processes}"


def locks_on(conn: redis.Redis) -> tuple[str, ...]:
    """The locks of the table that a server has the commands for."""
    return tuple(name for name in LOCKS if not SUBJECTS[name].missing(conn))


def benchmark_of(locks: Sequence[str], seconds: float, rounds: int, url: str = "") -> Contest:
    """Return what is to be measured: each lock with each number of processes.

    `seconds` are those of each lock in each round.

    It measures the server at `url`, or else the bank's.
    """
    return Contest(locks, CLIENTS, seconds * rounds, url or None, rounds)


def turns_of(locks: Sequence[str], seconds: float, rounds: int) -> list[TableTurn]:
    """The turns of the benchmark in the order in which they run; none for 0 seconds."""
    turns = benchmark_of(locks, seconds, rounds).turns if seconds else ()
    return [TableTurn(*turn) for turn in turns]


def measure_table(
    contest: Contest, on_turn: Callable[[Turn], None], check: Callable[[], None]
) -> list[dict[str, Any]]:
    """Measure the table and return its rows in JSON's types; blocks as long as that takes.

    Args:
        contest: What `benchmark_of` returned.
        on_turn: Called before each turn; what it raises ends the benchmark.
        check: Likewise, several times a second.

    Raises:
        CannotMeasure: Another benchmark runs on this server, or there are keys of its names.
        WorkerError: A process failed.
        LockBackendError: The server cannot be asked.
    """
    try:
        measured = measure(contest, on_turn, check)
    except LockNotAvailable as error:
        msg = "Another benchmark of locks runs on this server: start this again when it has ended."
        raise CannotMeasure(msg) from error
    except KeysInTheWay as error:
        raise CannotMeasure(str(error)) from error
    return [asdict(row) for row in compare(measured, contest.seconds)]


@dataclass(frozen=True)
class TableRow:
    """One row as people read it, with counts as in the book's 10 s.

    The lock goes by its ``key`` where there is little room, and by its ``label``.

    Attributes:
        key: The key of the lock.
        label: What people call it.
        clients: How many processes took it.
        tries: How often they asked for it.
        acquires: How often they got it.
        spread: How far the rounds lie apart: half the distance between the least and the most
            acquires.
        beside: What the rounds say of it and of the original lock.
        change: By how much it was acquired more often than that; "" unless that is decided.
        book: Tries, acquires and the change, in the book.
    """

    key: str
    label: str
    clients: int
    tries: str
    acquires: str
    spread: str
    beside: Verdict
    change: str
    book: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """All of it in order, in a few characters each."""
        change = self.change or {Verdict.NO_DIFFERENCE: "=", Verdict.NOT_DECIDED: "?"}[self.beside]
        here = (self.tries, self.acquires, self.spread, "" if self.key == ORIGINAL else change)
        return (self.key, str(self.clients), *here, *self.book)

    @property
    def told(self) -> str:
        """The word for it and the original lock."""
        if self.key == ORIGINAL:
            return ""
        if self.beside is Verdict.WORSE:
            return f"original better, {self.change}"
        return f"{self.beside.value}{self.change and f', {self.change}'}"


def rows_of(table: Iterable[Mapping[str, Any]]) -> list[TableRow]:
    """The measured rows of a run beside the book's."""
    rows = list(table)
    return [_row(row, _find(rows, ORIGINAL, row["clients"])) for row in rows]


def sentences_of(table: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the rounds say of each pair of locks, and what the book says; [] without a table."""
    rows = list(table)
    found = [_sentence(rows, *pair) for pair in PAIRS]
    return [*filter(None, found), *_of_the_book(rows)]


def _sentence(rows: list[Mapping[str, Any]], one: str, other: str) -> str:
    """By number of clients, which of two locks is better; "" if they were not measured together."""
    counts: dict[str, list[str]] = {}
    for row in rows:
        rival = _find(rows, other, row["clients"])
        if row["lock"] != one or rival is None:
            continue
        found = _judge(row, rival)
        winner = other if found.verdict is Verdict.WORSE else one
        decided = found.verdict in (Verdict.BETTER, Verdict.WORSE)
        word = f"{IN_SENTENCES[winner]} is better" if decided else found.verdict.value
        lead = found.turned() if found.verdict is Verdict.WORSE else found
        factor = f" ({lead.factors})" if decided else ""
        counts.setdefault(word, []).append(f"{row['clients']}{factor}")
    told = [f"{word} with {', '.join(found)}" for word, found in counts.items()]
    if not told:
        return ""
    pair = f"{IN_SENTENCES[one]} against {IN_SENTENCES[other]}"
    return f"By number of clients, {pair}: {'; '.join(told)}."


def _of_the_book(rows: list[Mapping[str, Any]]) -> list[str]:
    found = [
        f"{row['book_percent']:+.0f} % with {row['clients']}"
        for row in rows
        if row["lock"] == "lua" and row["book_percent"] is not None
    ]
    if not found:
        return []
    return [f"In the book, acquires of the Lua lock beside the original lock: {', '.join(found)}."]


def _find(rows: list[Mapping[str, Any]], lock: str, clients: int) -> Mapping[str, Any] | None:
    return next((row for row in rows if (row["lock"], row["clients"]) == (lock, clients)), None)


def _judge(row: Mapping[str, Any], other: Mapping[str, Any] | None) -> Judgement:
    # Runs of earlier versions have no rounds.
    mine, theirs = (dict(enumerate((one or {}).get("rounds", ()), 1)) for one in (row, other))
    return judge(mine, theirs)


def _label(lock: str) -> str:
    return SUBJECTS[lock].label if lock in SUBJECTS else lock


def _row(row: Mapping[str, Any], original: Mapping[str, Any] | None) -> TableRow:
    scale = BOOK_SECONDS / row["seconds"]
    found = _judge(row, original)
    decided = found.verdict in (Verdict.BETTER, Verdict.WORSE)
    percent = row["percent"] if decided else None
    tries, acquires, change = counts(
        round(row["tries"] * scale), round(row["acquires"] * scale), percent
    )
    return TableRow(
        row["lock"],
        _label(row["lock"]),
        row["clients"],
        tries,
        acquires,
        _spread(row.get("rounds", ())),
        found.verdict,
        change,
        counts(row["book_tries"], row["book_acquires"], row["book_percent"]),
    )


def _spread(rounds: Sequence[int]) -> str:
    if len(rounds) < 2 or not sum(rounds):  # noqa: PLR2004 - one has no spread
        return ""
    return f"±{50 * (max(rounds) - min(rounds)) * len(rounds) / sum(rounds):.0f}%"
