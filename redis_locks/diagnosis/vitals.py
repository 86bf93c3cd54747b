"""How the server is, in one line for the head of a page: much less than `diagnose` finds out."""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple

from redis import exceptions as redis_errors

from redis_locks.diagnosis.findings import Level
from redis_locks.diagnosis.probe import probes
from redis_locks.diagnosis.server_checks import eviction
from redis_locks.exceptions import LockBackendError


class Vitals(NamedTuple):
    """The first or only server. Unknown texts are empty; `latency` is in seconds, memory in bytes.

    `warning` says what is wrong with the memory's limit or policy, and how to put it right.
    """

    server: str
    latency: float
    used_memory: int
    max_memory: int
    policy: str
    warning: str


def vitals(*, using: str | None = None) -> Vitals | None:
    """Return how the server is, or None if the user may not ask; blocks for a few round trips.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    opened = probes(using)
    try:
        probe = opened[0]
        name = f"{str(probe.hello['server']).capitalize()} {probe.hello['version']}"
        started = monotonic()
        probe.client.ping()
        took = monotonic() - started
        info = probe.info
        verdict = eviction(probe)
        return Vitals(
            name,
            took,
            int(info["used_memory"]),
            int(info["maxmemory"]),
            str(info["maxmemory_policy"]),
            "" if verdict.level is Level.OK else f"{verdict.message} {verdict.fix}",
        )
    except (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError) as failure:
        raise LockBackendError(str(failure)) from failure
    except (redis_errors.RedisError, KeyError):
        return None
    finally:
        for each in opened:
            each.close()
