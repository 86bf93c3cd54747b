"""The verdict of a run, in three lines: the money, and which fair way is fastest on each kind of accounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from demo_project.bank.strategies import STRATEGIES, Durability, label_of

from .plan import ACCOUNTS
from .rankings import Verdict, compare, rank
from .summaries import ROUND_TRIPS, THROUGHPUT, Summaries, Summary, money_of

LINE = 80


@dataclass(frozen=True)
class VerdictLine:
    """One line: `short` is at most 80 characters for a terminal, `text` is for people who read the page."""

    topic: str
    short: str
    text: str
    is_good: bool = True


def verdict_of(summaries: Summaries) -> list[VerdictLine]:
    """The verdict of a run; empty when nothing was measured."""
    return [*_money(summaries), *(line for kind in ACCOUNTS for line in _fastest(summaries, kind))]


def fair_rivals(summaries: Summaries, accounts: str, workers: int) -> list[Summary]:
    """The safe strategies in memory that pack their work into as few round trips as they can; the fastest first."""
    found = [
        summary
        for (kind, count, name), summary in summaries.items()
        if (kind, count) == (accounts, workers) and _is_fair(name)
    ]
    return [place.summary for place in rank(found, THROUGHPUT)]


def _is_fair(name: str) -> bool:
    strategy = STRATEGIES.get(name)
    return (
        strategy is not None
        and strategy.is_safe
        and strategy.is_packed
        and strategy.durability is Durability.MEMORY
    )


def _money(summaries: Summaries) -> Iterator[VerdictLine]:
    names = {name for _, _, name in summaries}
    safe = sorted(name for name in names if name not in STRATEGIES or STRATEGIES[name].is_safe)
    careful = money_of(
        row for key, found in summaries.items() if key[2] in safe for row in found.rows
    )
    careless = money_of(
        row for key, found in summaries.items() if key[2] not in safe for row in found.rows
    )
    if not careful.measurements and not careless.measurements:
        return
    wrong = [
        name
        for name in safe
        if any(not found.money.conserved for key, found in summaries.items() if key[2] == name)
    ]
    if wrong:
        short = f"Money: WRONG with {', '.join(wrong)}"
        told = f"Money was lost, made up or overdrawn, which must not happen, by {', '.join(map(label_of, wrong))}."
        yield VerdictLine("money", short[:LINE], told, is_good=False)
        return
    count, lost = f"{careful.measurements:,}", ""
    short = f"Money: safe ways right in {count} of {count} measurements"
    told = f"The safe ways conserved the money to the cent in {count} of {count} measurements."
    if careless.measurements:
        lost = f"{careless.wrong:,} of {careless.measurements:,}"
        short += f"; no locking wrong in {lost}"
        told += f" Without locking it was wrong in {lost}."
    yield VerdictLine("money", f"{short}.", told)


def _fastest(summaries: Summaries, accounts: str) -> Iterator[VerdictLine]:
    most = max((count for kind, count, _ in summaries if kind == accounts), default=0)
    rivals = fair_rivals(summaries, accounts, most)
    if not rivals:
        return
    first, *others = rivals
    rate = THROUGHPUT.show(first.median(THROUGHPUT))
    workers = "1 worker" if most == 1 else f"{most} workers"
    short = f"{accounts.capitalize()}, {workers}: {first.strategy} {rate}/s"
    told = f"On {ACCOUNTS[accounts]:,} accounts with {workers}, {first.label} made {rate} transfers/s{_trips(first)}"
    if others:
        short += f": {', '.join(_in_short(first, other) for other in others)}"
        told += f": {', and '.join(_in_full(first, other) for other in others)}"
    yield VerdictLine(accounts, f"{short}.", f"{told}.")


def _in_short(first: Summary, other: Summary) -> str:
    verdict, times = _lead(first, other)
    if verdict is Verdict.ALIKE:
        return f"like {other.strategy}"
    return f"{times}x{'?' if verdict is Verdict.UNKNOWN else ''} {other.strategy}"


def _in_full(first: Summary, other: Summary) -> str:
    verdict, times = _lead(first, other)
    told = "within noise of" if verdict is Verdict.ALIKE else f"{times} times as many as"
    doubt = "perhaps " if verdict is Verdict.UNKNOWN else ""
    rate = THROUGHPUT.show(other.median(THROUGHPUT))
    return f"{doubt}{told} {other.label} with {rate}{_trips(other)}"


def _lead(first: Summary, other: Summary) -> tuple[Verdict, str]:
    mine, theirs = first.median(THROUGHPUT), other.median(THROUGHPUT)
    if not mine or not theirs:
        return Verdict.ALIKE, ""
    return compare(first, other, THROUGHPUT), f"{mine / theirs:.1f}"


def _trips(summary: Summary) -> str:
    """How many round trips the server has counted for a transfer."""
    trips = summary.median(ROUND_TRIPS)
    return f" ({ROUND_TRIPS.show(trips)} round trips each)" if trips else ""
