"""Which one should I use? Five questions, each answered in general and by the figures of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .gate import Verdict
from .rankings import compare, compare_work
from .summaries import RETRIES, THROUGHPUT, Metric, Summaries, Summary, money_of

LOCK, OPTIMISTIC, SCRIPT = "redis_lock", "optimistic", "script"
PACKED_WATCH = "watch_packed"
ROWS, ROWS_ON_REDIS = "rows_db", "rows_redis"


@dataclass(frozen=True)
class Answer:
    """One question, what to use in general, and what the run's figures say, which may be empty."""

    question: str
    general: str
    figures: str


def answers_of(summaries: Summaries) -> list[Answer]:
    """The five answers; the figures need a run with rounds enough."""
    return [Answer(question, general, figures(summaries)) for question, general, figures in _ALL]


def _of_one_server(summaries: Summaries) -> str:
    return _against(summaries, SCRIPT, LOCK, "spread")


def _of_conflicts(summaries: Summaries) -> str:
    told = (
        _against(summaries, rival, LOCK, accounts)
        for accounts in ("hot", "spread")
        for rival in (OPTIMISTIC, PACKED_WATCH)
    )
    return " ".join(filter(None, told))


def _of_work(summaries: Summaries) -> str:
    pair = _pair(summaries, LOCK, OPTIMISTIC, "hot")
    if not pair or compare_work(*pair).verdict is not Verdict.BETTER:
        return ""
    mine, theirs = (1 + (one.median(RETRIES) or 0.0) for one in pair)
    return (
        f"On hot accounts with {_workers(pair[0])}, {pair[1].label} did the work {theirs:.1f} "
        f"times for each transfer, and {pair[0].label} {mine:.1f} times."
    )


def _of_rows(summaries: Summaries) -> str:
    return _against(summaries, ROWS, ROWS_ON_REDIS, "hot")


def _of_late_writes(summaries: Summaries) -> str:
    names = (LOCK, OPTIMISTIC, PACKED_WATCH)
    money = money_of(
        row for (_, _, name), found in summaries.items() if name in names for row in found.rows
    )
    if not money.measurements:
        return ""
    right = money.measurements - money.wrong
    return (
        f"With locks and optimistic transactions, the money was right to the cent in {right:,} of "
        f"{money.measurements:,} measurements. Overdrawn accounts: {money.overdrawn:,}."
    )


_ALL: tuple[tuple[str, str, Callable[[Summaries], str]], ...] = (
    (
        "Is all the data on one Redis server?",
        "If it is, every way on this page works. One Lua script is enough where the server can "
        "decide alone. If it is not, use redis_lock: WATCH and scripts see one server only.",
        _of_one_server,
    ),
    (
        "Are conflicts rare?",
        "If they are, use optimistic: nobody waits. If they are common, it starts again and "
        "again, and some transfers take long. With redis_lock, waiters get their turn once, in "
        "order.",
        _of_conflicts,
    ),
    (
        "Does it have side effects, or slow work inside?",
        "Use redis_lock. An optimistic transaction runs the work again after each conflict: an "
        "email would be sent twice, and slow work meets more conflicts.",
        _of_work,
    ),
    (
        "Is the data in database rows?",
        "In one database and a short transaction, use select_for_update. Use lock_rows for "
        "several databases or one without row locks, and redis_lock with fenced rows for work "
        "that outlives a transaction.",
        _of_rows,
    ),
    (
        "Is a late write dangerous?",
        "Write by hold.commit: the server refuses it if the lock was lost. EXEC is refused in the "
        "same way if a watched key has changed. Where the data is elsewhere, have it check the "
        "fencing token.",
        _of_late_writes,
    ),
)


def _against(summaries: Summaries, one: str, other: str, accounts: str) -> str:
    """What the rounds say of two methods with the most workers; "" if there are too few rounds."""
    pair = _pair(summaries, one, other, accounts)
    return " ".join(_told(*pair, THROUGHPUT)) if pair else ""


def _told(one: Summary, other: Summary, metric: Metric) -> Iterator[str]:
    found = compare(one, other, metric)
    if not found.is_enough:
        return
    where = f"On {one.accounts} accounts with {_workers(one)}"
    if found.verdict is Verdict.WORSE:
        one, other, found = other, one, found.turned()
    rates = [f"{each.label} ({metric.show(each.median(metric))})" for each in (one, other)]
    if found.verdict is Verdict.BETTER:
        yield f"{where}, {rates[0]} is better than {rates[1]}: {found.factors}."
    else:
        yield f"{where}, {found.verdict.value} between {rates[0]} and {rates[1]} transfers/s."


def _pair(
    summaries: Summaries, one: str, other: str, accounts: str
) -> tuple[Summary, Summary] | None:
    most = max((count for kind, count, _ in summaries if kind == accounts), default=0)
    found = [summaries.get((accounts, most, name)) for name in (one, other)]
    return (found[0], found[1]) if found[0] and found[1] else None


def _workers(summary: Summary) -> str:
    return "1 worker" if summary.workers == 1 else f"{summary.workers} workers"
