"""Which should I use? Five questions, answered in general and by a map's own figures."""

from __future__ import annotations

from dataclasses import dataclass

from demo_project.bank.compare.summaries import (
    RETRIES,
    ROUND_TRIPS,
    THROUGHPUT,
    Summary,
    money_of,
)
from demo_project.bank.models import Measurement
from demo_project.bank.strategies import Durability, durability_of, label_of

from .picture import Cell, Picture


@dataclass(frozen=True)
class Answer:
    """One question, what to use in general, and what this run's figures say; the latter may be empty."""

    question: str
    general: str
    figures: str


def answers_of(picture: Picture) -> list[Answer]:
    """The five answers; the figures need a map that is measured."""
    return [_one_server(picture), _conflicts(picture), _work(picture), _rows(), _late(picture)]


def _one_server(picture: Picture) -> Answer:
    return Answer(
        "Is all the data on one Redis server?",
        "If it is, every way on this page works. One Lua script is enough where the server can decide alone. If it is "
        "not, use redis_lock: WATCH and scripts see one server only.",
        _of_latency(picture),
    )


def _of_latency(picture: Picture) -> str:
    survey = picture.survey
    if not survey.latency_ms:
        return ""
    near, far = (picture.at(latency, 0.0, survey.accounts) for latency in (0.0, survey.latency_ms))
    if not (near.ranking and far.ranking):
        return ""
    parts = [
        f"{label_of(name)} from {_rate(near, name)} to {_rate(far, name)} transfers/s "
        f"({ROUND_TRIPS.show(far.median(name, ROUND_TRIPS))} round trips each)"
        for name in ("redis_lock", "optimistic")
    ]
    return (
        f"{survey.latency_ms:g} ms of latency took {' and '.join(parts)}, "
        f"between {survey.accounts:,} accounts."
    )


def _conflicts(picture: Picture) -> Answer:
    survey = picture.survey
    few, many = (picture.at(0.0, 0.0, count) for count in _ends(survey.all_accounts))
    figures = f"Between {few.accounts:,} accounts: {_told(few)}."
    if many is not few:
        figures += f" Between {many.accounts:,}: {_told(many)}."
    return Answer(
        "Are conflicts rare?",
        "If they are, use optimistic: nobody waits. If they are common, it starts again and again, which may still be "
        "faster, but some transfers take long. With redis_lock, waiters get their turn once, in order.",
        figures if few.ranking else "",
    )


def _work(picture: Picture) -> Answer:
    survey = picture.survey
    cell = picture.at(0.0, survey.work_ms, survey.all_accounts[0])
    retries = cell.median("optimistic", RETRIES)
    figures = ""
    if retries is not None and survey.work_ms:
        figures = (
            f"With {survey.work_ms:g} ms of work between {cell.accounts:,} accounts, optimistic did the work "
            f"{1 + retries:.1f} times for each transfer, and redis_lock once: {_told(cell)}."
        )
    return Answer(
        "Does it have side effects, or slow work inside?",
        "Use redis_lock. An optimistic transaction runs the work again after each conflict: an email would be sent "
        "twice, and slow work meets more conflicts.",
        figures,
    )


def _rows() -> Answer:
    found: dict[str, list[Measurement]] = {}
    latest = Measurement.objects.filter(comparison__status="finished").order_by("-comparison_id")
    newest = latest.first()
    if newest is not None:
        rows = latest.filter(comparison=newest.comparison_id, accounts=Measurement.Accounts.HOT)
        most = max((row.workers for row in rows), default=0)
        for row in rows:
            if row.workers == most and durability_of(row.strategy) is Durability.ROWS:
                found.setdefault(row.strategy, []).append(row)
    figures = ""
    if found and newest is not None:
        rates = [
            f"{label_of(name)} {_shown(Summary('hot', found[name][0].workers, name, tuple(found[name])))}"
            for name in sorted(found)
        ]
        figures = (
            f"{newest.comparison} had rows on two hot accounts, in transfers/s: {', '.join(rates)}."
        )
    return Answer(
        "Is the data in database rows?",
        "In one database and a short transaction, use select_for_update. Use lock_rows for several databases or one "
        "without row locks, and redis_lock with fenced rows for work that outlives a transaction.",
        figures or "The map has no rows. A comparison that has finished adds its figures here.",
    )


def _late(picture: Picture) -> Answer:
    money = money_of(row for cell in picture.cells for one in cell.ranking for row in one.rows)
    figures = ""
    if money.measurements:
        right = money.measurements - money.wrong
        figures = (
            f"The money was right to the cent in {right:,} of {money.measurements:,} measurements, "
            f"with {money.overdrawn:,} accounts overdrawn."
        )
    return Answer(
        "Is a late write dangerous?",
        "Write by hold.commit: the server refuses it if the lock was lost. EXEC is refused in the same way if a watched "
        "key has changed. Where the data is elsewhere, have it check the fencing token.",
        figures,
    )


def _ends(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[-1]


def _told(cell: Cell) -> str:
    """Which method is ahead in a cell, with all figures."""
    told = f"{cell.winner.label} is {cell.times}x as fast" if cell.winner else cell.text
    rates = [f"{one.label} {_shown(one)}" for one in cell.ranking]
    return f"{told} ({', '.join(rates)} transfers/s)" if rates else told


def _rate(cell: Cell, strategy: str) -> str:
    return THROUGHPUT.show(cell.median(strategy))


def _shown(summary: Summary) -> str:
    return THROUGHPUT.show(summary.median(THROUGHPUT))
