"""One run of the benchmark: alone on its names, in slices, in turn, and leaving nothing behind."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import redis

from demo_project.benchmark.conditions import WAIT, one_server
from demo_project.benchmark.figures import Figures, Turn, WorkerReport, summarise
from demo_project.benchmark.pool import WorkerPool
from demo_project.benchmark.subjects import NAME, OURS, SUBJECTS, Subject
from demo_project.benchmark.worker import Job
from redis_locks.connections.backends import backend_for
from redis_locks.exceptions import LockBackendError
from redis_locks.locks.lock import Lock
from redis_locks.values.keys import ServerName

SLICE_SECONDS = 1.0
"""The turn of a lock is at most this long, so that a busy moment of the machine hits all alike."""


WORKER = "demo_project.benchmark.worker"
GRACE_SECONDS = WAIT + 15.0
"""The last acquire of a client may begin at the last moment, and then wait."""


class KeysInTheWay(Exception):
    """The server has keys of the names that the benchmark uses, and somebody else made them."""


@dataclass(frozen=True)
class Contest:
    """What to measure: each lock with each number of clients, for so many seconds in all.

    Attributes:
        subjects: The keys of the locks.
        clients: The numbers of clients.
        seconds: For how long each lock is measured with each number of clients, all its turns
            together.
        using: On which server.
        rounds: In how many turns; None: in turns of `SLICE_SECONDS` at most.
    """

    subjects: Sequence[str]
    clients: Sequence[int]
    seconds: float
    using: str | None = None
    rounds: int | None = None

    @property
    def slices(self) -> int:
        """In how many turns each is measured."""
        return self.rounds or max(1, math.ceil(self.seconds / SLICE_SECONDS))

    @property
    def turns(self) -> Sequence[Turn]:
        """Lock and number of clients of every slice, in order."""
        return [
            (subject, clients)
            for clients in self.clients
            for _ in range(self.slices)
            for subject in self.subjects
        ]


def measure(
    plan: Contest, on_turn: Callable[[Turn], None], check: Callable[[], None] = lambda: None
) -> Mapping[Turn, Figures]:
    """Measure everything; return the figures by lock and number of clients.

    Blocks for the plan's seconds times its locks times its numbers of clients, and a little more.
    When it returns or raises, the clients are gone, and with them the keys that they made.

    Args:
        plan: What to measure.
        on_turn: Called before each slice; what it raises ends the benchmark.
        check: Likewise, several times a second while the clients are at work.

    Raises:
        LockNotAvailable: Another benchmark runs on this server.
        LockLost: The server forgot meanwhile that we run.
        KeysInTheWay: There are keys of the names that are used.
        WorkerError: A client failed.
        LockBackendError: The server cannot be reached, or refused a command.
        ImproperlyConfigured: The server's address or a setting is wrong.
    """
    client = one_server(plan.using)
    size = max(plan.clients)
    try:
        with (
            _alone(client, plan),
            WorkerPool(WORKER, size, grace=GRACE_SECONDS, check=check) as pool,
        ):
            return _measure(client, plan, pool, on_turn)
    except redis.RedisError as error:
        msg = f"{backend_for(plan.using).description} did not answer as expected: {error}"
        raise LockBackendError(msg) from error


@contextmanager
def _alone(client: redis.Redis, plan: Contest) -> Iterator[None]:
    """Keep other benchmarks out, refuse to touch keys of others, and delete our own."""
    subjects = [SUBJECTS[key] for key in plan.subjects]
    with Lock(ServerName(NAME), wait=0, using=plan.using, label="locks benchmark"):
        _refuse_keys(client, subjects)
        try:
            yield
        finally:
            _delete_keys(client, subjects, plan.using)


def _refuse_keys(client: redis.Redis, subjects: Sequence[Subject]) -> None:
    found = [key.decode() for subject in subjects for key in subject.keys if client.exists(key)]
    if found:
        msg = (
            f"There are keys of the names that the benchmark uses: {', '.join(found)}. If they are "
            "left of one that was killed, they go within 10 s; otherwise delete them or use "
            "another server."
        )
        raise KeysInTheWay(msg)


def _delete_keys(client: redis.Redis, subjects: Sequence[Subject], using: str | None) -> None:
    for subject in subjects:
        client.delete(*subject.keys)
    ours = SUBJECTS[OURS].name
    # What a client that was killed leaves in the index.
    client.zrem(backend_for(using).keys(ours)[0], ours)


def _measure(
    client: redis.Redis, plan: Contest, pool: WorkerPool, on_turn: Callable[[Turn], None]
) -> dict[Turn, Figures]:
    reports: dict[Turn, list[Sequence[WorkerReport]]] = defaultdict(list)
    commands: Counter[Turn] = Counter()
    seconds = plan.seconds / plan.slices
    for turn in plan.turns:
        on_turn(turn)
        key, clients = turn
        pool.prepare([asdict(Job(key, plan.using, seconds))] * clients)
        before = sent(client, key)
        reports[turn].append([WorkerReport(**report) for report in pool.run(seconds)])
        commands[turn] += sent(client, key) - before
    return {turn: summarise(slices, commands[turn]) for turn, slices in reports.items()}


def sent(client: redis.Redis, key: str) -> int:
    """Return how often the server has run the commands of a lock, for anybody, since it started."""
    statistics = client.info("commandstats")
    sends = SUBJECTS[key].sends
    return sum(statistics.get(f"cmdstat_{command}", {}).get("calls", 0) for command in sends)
