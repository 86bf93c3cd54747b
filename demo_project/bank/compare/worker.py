"""One worker process: transfers money at random until its time is over, and reports the results."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import redis
from django_redis import get_redis_connection

from demo_project.bank.accounts import Books, TooMuchContention, TransferError
from demo_project.bank.compare.statistics import WorkerReport
from demo_project.bank.strategies import STRATEGIES, transfer_funds
from demo_project.benchmark.worker_loop import serve
from redis_locks import LockBackendError, LockError

LARGEST_AMOUNT = 100
# One transfer in so many, at random, asks for all that its sender holds: of two at once, one must
# be refused.
OVERDRAFT_EVERY = 50
# Nobody repeats an operation of the comparison, so the bank need not remember it for long.
MARKER_SECONDS = 5


@dataclass(frozen=True)
class Job:
    """What a worker is to do, its own number for operation ids, and its largest transfer in cents.

    ``url`` is the server's address if it is not the usual one; all jobs of a worker have the same.
    """

    strategy: str
    account_ids: list[str]
    seconds: float
    number: int
    run: str
    most: int
    url: str = ""


def work(conn: redis.Redis, job: Job) -> WorkerReport:
    """Transfer random amounts between random accounts until the time is over."""
    books = STRATEGIES[job.strategy].books
    retries = refused = failed = overdrafts = prevented = 0
    latencies: list[int] = []
    net: Counter[str] = Counter()
    started = time.perf_counter()
    deadline = started + job.seconds
    for step in count():
        sender, recipient = random.sample(job.account_ids, 2)
        cents, overdraft = _amount(conn, books, sender, job.most)
        before = time.perf_counter()
        if before >= deadline:
            seconds = before - started
            return WorkerReport(
                seconds, retries, refused, failed, latencies, overdrafts, prevented, dict(net)
            )
        try:
            receipt = transfer_funds(
                conn,
                sender,
                recipient,
                cents,
                strategy=job.strategy,
                operation_id=f"{job.run}:{job.number}:{step}",
                marker_seconds=MARKER_SECONDS,
            )
        except LockBackendError:
            raise
        except (TooMuchContention, LockError):
            # The lock was lost, or an operator cancelled the wait for it.
            failed += 1
            # It may have been made, and nobody is to be accused of an overdraft that was none.
            net[recipient] += cents
        except TransferError:
            refused += 1
            overdrafts += overdraft
            prevented += overdraft
        else:
            overdrafts += overdraft
            latencies.append(round((time.perf_counter() - before) * 1e6))
            retries += receipt.retries
            net[sender] -= cents
            net[recipient] += cents
    raise AssertionError  # count() never ends


def _amount(conn: redis.Redis, books: Books, sender: str, most: int) -> tuple[int, bool]:
    """How much to ask for, and whether that is all that the sender holds."""
    if random.randrange(OVERDRAFT_EVERY) == 0:  # noqa: S311
        held = min(books.read(conn, [sender])[sender], most)
        # An account that is empty has nothing that two could ask for.
        if held:
            return held, True
    return random.randint(1, LARGEST_AMOUNT), False  # noqa: S311


def warm_up(conn: redis.Redis, job: Job) -> None:
    """Connect and load scripts, so that the first measured transfer is like all others."""
    first, second = job.account_ids[:2]
    try:
        transfer_funds(conn, first, second, 1, strategy=job.strategy, marker_seconds=MARKER_SECONDS)
    except LockBackendError:
        raise
    except (TransferError, LockError):
        # Only the connection matters here.
        return


def prepare(message: dict[str, Any]) -> Callable[[], WorkerReport]:
    """Return what does a job, after a warm-up."""
    job = Job(**message)
    if job.url:
        # What starts servers is needed here only.
        from demo_project.bank.server import point_everything_at

        point_everything_at(job.url)
    conn = get_redis_connection("default")
    warm_up(conn, job)
    return partial(work, conn, job)


def main() -> None:
    """Serve a `WorkerPool`."""
    serve(sys.stdin, sys.stdout, prepare)
