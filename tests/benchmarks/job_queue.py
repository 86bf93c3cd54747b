"""A job queue of 8 processes: `lock_rows(skip_locked=True, limit=1)` and the database's own.

That is SKIP LOCKED on PostgreSQL. SQLite has none, so there it is what projects do instead: to take
and do each job in one transaction that begins with BEGIN IMMEDIATE, or to claim a job by an UPDATE,
do it, and ask again if another process was quicker.

`python -m tests.benchmarks.job_queue` prints how many jobs are done in a second, in turn and in the
same run, and the ratio of the medians; `--sqlite` does so on SQLite. Wants PostgreSQL's programs
otherwise. On a busy machine the time of the processors tells more: it is printed, too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from time import monotonic, process_time
from typing import Any, Final

PROCESSES: Final = 8
JOBS = 600
ROUNDS: Final = 5
OWN, OURS, OURS_ATOMIC = "PostgreSQL's own", "lock_rows", "lock_rows in atomic()"
IMMEDIATE, CLAIM = "BEGIN IMMEDIATE", "UPDATE that claims"
ON_POSTGRES: Final = (OWN, OURS, OURS_ATOMIC)
ON_SQLITE: Final = (IMMEDIATE, CLAIM, OURS, OURS_ATOMIC)
CLAIMED: Final = 2


def _setup(url: str, sqlite: Path | None) -> None:
    os.environ.update(DJANGO_SETTINGS_MODULE="tests.benchmarks.settings", REDIS_LOCKS_TEST_URL=url)
    if sqlite:
        os.environ["REDIS_LOCKS_TEST_DATABASE"] = str(sqlite)
    import django

    django.setup()


def _one(subject: str, alias: str) -> bool:
    """Do a job; False if there is none."""
    from django.db.transaction import atomic

    from redis_locks.rows import lock_rows
    from tests.ledger.models import Counter

    pending = Counter.objects.using(alias).filter(value=0).order_by("pk")

    def do(jobs: Any) -> bool:
        found = False
        for job in jobs:
            job.value = 1
            job.save(update_fields=["value"])
            found = True
        return found

    if subject == IMMEDIATE:
        with atomic(using=alias):
            return do(pending[:1])
    if subject == CLAIM:
        return do(_claimed(pending))
    if subject == OWN:
        with atomic(using=alias):
            return do(pending.select_for_update(skip_locked=True)[:1])
    if subject == OURS:
        with lock_rows(pending, skip_locked=True, limit=1) as jobs:
            return do(jobs)
    with atomic(using=alias), lock_rows(pending, skip_locked=True, limit=1) as jobs:
        return do(jobs)


def _claimed(pending: Any) -> Any:
    """Return a job that was claimed, or none if there is none."""
    while (pk := pending.values_list("pk", flat=True).first()) is not None:
        if pending.filter(pk=pk).update(value=CLAIMED):
            return pending.model.objects.using(pending.db).filter(pk=pk)
    return ()


def _database(entry: dict[str, Any] | None) -> AbstractContextManager[str]:
    from tests import postgres

    return postgres.configured(entry) if entry else nullcontext("default")


def _work(
    url: str, sqlite: Path | None, entry: dict[str, Any] | None, inbox: Any, outbox: Any
) -> None:
    _setup(url, sqlite)
    with _database(entry) as alias:
        for subject in iter(inbox.get, None):
            done, began = 0, process_time()
            while _one(subject, alias):
                done += 1
            outbox.put((done, process_time() - began))


def _measure(subject: str, alias: str, inboxes: list[Any], outbox: Any) -> tuple[float, float]:
    """Return how many jobs a second are done, and one job's processor seconds in our processes."""
    from tests.ledger.models import Counter

    rows = Counter.objects.using(alias)
    rows.all().delete()
    rows.bulk_create(Counter(name=f"job {number}") for number in range(JOBS))
    began = monotonic()
    for inbox in inboxes:
        inbox.put(subject)
    told = [outbox.get(timeout=120) for _ in inboxes]
    ended = monotonic()
    done = sum(its for its, _ in told)
    # A job done twice would be counted twice.
    if done != JOBS or rows.exclude(value=1).exists():
        raise RuntimeError(f"{subject} did {done} of {JOBS} jobs.")
    return JOBS / (ended - began), sum(used for _, used in told) / JOBS


def _with_workers(
    url: str,
    sqlite: Path | None,
    entry: dict[str, Any] | None,
    work: Callable[[list[Any], Any], None],
) -> None:
    context = multiprocessing.get_context("spawn")
    inboxes, outbox = [context.Queue() for _ in range(PROCESSES)], context.Queue()
    workers = [
        context.Process(target=_work, args=(url, sqlite, entry, inbox, outbox), daemon=True)
        for inbox in inboxes
    ]
    for worker in workers:
        worker.start()
    try:
        work(inboxes, outbox)
    finally:
        for inbox in inboxes:
            inbox.put(None)
        for worker in workers:
            worker.join(10)


def main(rounds: int, *, sqlite: bool) -> None:
    """Measure, and print."""
    from redis_locks.testing.server import EmbeddedServer
    from tests import postgres

    missing = None if sqlite else postgres.missing()
    if missing is not None:
        raise SystemExit(missing)
    with EmbeddedServer(use_environment=False) as redis, tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "jobs.sqlite3") if sqlite else None
        _setup(redis.url, path)
        with nullcontext() if sqlite else postgres.server() as entry:
            rates = _rounds(redis.url, path, entry, rounds)
    subjects = ON_SQLITE if sqlite else ON_POSTGRES
    own = median(rate for rate, _ in rates[subjects[0]])
    sys.stdout.write(f"{PROCESSES} processes, {JOBS} jobs, median of {rounds} rounds\n")
    for subject, its in rates.items():
        rate, used = median(rate for rate, _ in its), median(used for _, used in its) * 1000
        sys.stdout.write(
            f"{subject:<24}{rate:8,.0f} jobs/s {own / rate:7.2f}x its time {used:7.2f} ms of the "
            "processor\n"
        )


def _rounds(
    url: str, sqlite: Path | None, entry: dict[str, Any] | None, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    from django.apps import apps
    from django.db import connections

    subjects = ON_SQLITE if sqlite else ON_POSTGRES
    rates: dict[str, list[tuple[float, float]]] = {subject: [] for subject in subjects}
    with _database(entry) as alias:
        with connections[alias].schema_editor() as editor:
            for model in apps.get_app_config("ledger").get_models():
                editor.create_model(model)

        def work(inboxes: list[Any], outbox: Any) -> None:
            for number in range(rounds + 1):
                for subject, its in rates.items():
                    measured = _measure(subject, alias, inboxes, outbox)
                    if number:  # the first round connects, and fills caches
                        its.append(measured)

        _with_workers(url, sqlite, entry, work)
    return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--sqlite", action="store_true")
    given = parser.parse_args()
    JOBS = given.jobs
    main(given.rounds, sqlite=given.sqlite)
