"""The verdict of a run: who is fastest, what the lock gives for it, and the money."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from demo_project.bank.strategies import STRATEGIES, Durability, label_of

from .findings import listed
from .gate import Judgement, Verdict
from .plan import ACCOUNTS
from .rankings import compare, compare_work, rank
from .summaries import (
    FAIRNESS,
    P99,
    RETRIES,
    ROUND_TRIPS,
    THROUGHPUT,
    Metric,
    Summaries,
    Summary,
    money_of,
)

LOCK = "redis_lock"
NO_DIFFERENCE, NOT_DECIDED = Verdict.NO_DIFFERENCE.value, Verdict.NOT_DECIDED.value
LINE = 80


@dataclass(frozen=True)
class VerdictLine:
    """One line: `short` has at most 80 characters, for a terminal; `text` is for the page."""

    topic: str
    short: str
    text: str
    is_good: bool = True


def verdict_of(summaries: Summaries) -> list[VerdictLine]:
    """The verdict of a run; empty when nothing was measured."""
    return [*(line for kind in ACCOUNTS for line in _fastest(summaries, kind)), *_money(summaries)]


def fair_rivals(summaries: Summaries, accounts: str, workers: int) -> list[Summary]:
    """The safe strategies in memory that need the fewest round trips, the fastest first."""
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
        told = (
            "Money was lost, made up or overdrawn, which must not happen, by "
            f"{', '.join(map(label_of, wrong))}."
        )
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
    """Yield the fastest method on these accounts with the most workers, and what the lock adds."""
    most = max((count for kind, count, _ in summaries if kind == accounts), default=0)
    rivals = fair_rivals(summaries, accounts, most)
    if not rivals:
        return
    first, *others = rivals
    found = [(other, compare(first, other, THROUGHPUT)) for other in others]
    workers = "1 worker" if most == 1 else f"{most} workers"
    short, text = _head(first, found)
    for other, lead in _with(found, Verdict.BETTER):
        short += f", {lead.times:.1f}x {other.strategy}"
        text += f", better than {_rate(other)}: {lead.factors}"
    yield VerdictLine(
        accounts,
        f"{accounts.capitalize()}, {workers}: {short}."[:LINE],
        f"On {ACCOUNTS[accounts]:,} accounts with {workers}, {text}.",
    )
    lock = next((one for one in rivals if one.strategy == LOCK), None)
    rival = next((one for one in rivals if one.strategy != LOCK), None)
    if lock and rival:
        yield _given(accounts, lock, rival)


def _head(first: Summary, found: Sequence[tuple[Summary, Judgement]]) -> tuple[str, str]:
    """The fastest method, in short and in full."""
    doubtful = [other for other, _ in _with(found, Verdict.NOT_DECIDED)]
    level = [other for other, _ in _with(found, Verdict.NO_DIFFERENCE)]
    if doubtful:
        possible = [first, *level, *doubtful]
        rates = listed([_rate(one) for one in possible])
        return (
            f"fastest {_names(possible, ' or ')}",
            f"it is {NOT_DECIDED} which of these is the fastest: {rates}",
        )
    if level:
        rates = listed([_rate(one) for one in [first, *level]])
        short = f"fastest {_names([first, *level], ' and ')}"
        return short, f"there is {NO_DIFFERENCE} between the fastest, {rates}"
    return f"fastest {first.strategy}", f"the fastest is {_rate(first)}"


def _names(summaries: Sequence[Summary], between: str) -> str:
    return between.join(one.strategy for one in summaries)


def _with(
    found: Sequence[tuple[Summary, Judgement]], verdict: Verdict
) -> list[tuple[Summary, Judgement]]:
    return [(other, lead) for other, lead in found if lead.verdict is verdict]


def _given(accounts: str, lock: Summary, rival: Summary) -> VerdictLine:
    """What the lock gives beside the fastest of the others, with the figures."""
    short, told = [], []
    for words, brief, judged, show in GIVEN:
        lead = judged(lock, rival)
        mine, theirs = show(lock), show(rival)
        told.append(f"{words}: {mine} and {theirs}, {_word(lead, lock, rival)}.")
        if lead.verdict is Verdict.BETTER:
            short.append(f"{brief} {mine} ({theirs})")
    what = f"is better in {', '.join(short)}" if short else "is better in no other figure"
    text = (
        f"Other figures, {lock.label} first and {rival.label} second. {' '.join(told)} A block "
        "under a lock may have side effects and use other systems, as it runs once."
    )
    return VerdictLine(f"{accounts} given", f"  {lock.strategy} {what}."[:LINE], text)


def _word(lead: Judgement, lock: Summary, rival: Summary) -> str:
    better = {Verdict.BETTER: lock, Verdict.WORSE: rival}.get(lead.verdict)
    return f"better with {better.label}" if better else str(lead.verdict.value)


def _rate(summary: Summary) -> str:
    """A method, its rate, and how many round trips the server has counted for each transfer."""
    trips = summary.median(ROUND_TRIPS)
    rate = THROUGHPUT.show(summary.median(THROUGHPUT))
    told = f", {ROUND_TRIPS.show(trips)} trips" if trips else ""
    return f"{summary.label} ({rate} transfers/s{told})"


def _by(metric: Metric) -> Callable[[Summary, Summary], Judgement]:
    return lambda one, other: compare(one, other, metric)


GIVEN: tuple[
    tuple[str, str, Callable[[Summary, Summary], Judgement], Callable[[Summary], str]], ...
] = (
    (
        "Fairness (Jain's index)",
        "fairness",
        _by(FAIRNESS),
        lambda one: FAIRNESS.show(one.median(FAIRNESS)),
    ),
    ("Slowest 1 %", "p99", _by(P99), lambda one: f"{P99.show(one.median(P99))} ms"),
    (
        "Tries for each transfer",
        "tries",
        compare_work,
        lambda one: f"{1 + (one.median(RETRIES) or 0.0):.1f}",
    ),
)
"""What a lock may give: in words, in short, how two are judged by it, and how its value is shown.
"""
