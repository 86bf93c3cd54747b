"""Checks of what lies between us and the server.

Clocks, time under way, shared databases, a real lock.
"""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

from django.conf import settings

from redis_locks.connections.shared_databases import SHARED_WITH_CACHE, caches_beside
from redis_locks.diagnosis.findings import Outcome, error, ok, reason, warning
from redis_locks.diagnosis.probe import Probe
from redis_locks.exceptions import LockBackendError, LockError
from redis_locks.locks.lock import Lock
from redis_locks.statistics.usual import recent

LOCK_NAME = "redis_locks doctor"
"""The lock that is acquired and released to see whether that works."""

_SAMPLES = 15
_SLOW = 0.01
_CLOCKS_AGREE = 1.0


class _Sample(NamedTuple):
    took: float
    ahead: float


def _samples(probe: Probe) -> list[_Sample]:
    """Ask for the time some times; a right to it is needed anyway."""
    samples = []
    for _ in range(_SAMPLES):
        sent, since = time.time(), time.monotonic()
        seconds, microseconds = probe.client.time()
        took = time.monotonic() - since
        samples.append(_Sample(took, seconds + microseconds / 1_000_000 - (sent + took / 2)))
    return samples


def latency(probe: Probe) -> Outcome:
    """Check how long a round trip takes."""
    middle = median(sample.took for sample in _samples(probe))
    shown = f"A round trip takes {middle * 1000:.2f} ms (median of {_SAMPLES})"
    if middle > probe.settings.lease / 10:
        return error(
            f"{shown}, too long to renew leases of {probe.settings.lease:g} s in time.",
            "Move closer to the server, or raise REDIS_LOCKS['LEASE'].",
        )
    if middle > _SLOW:
        return warning(
            f"{shown}; each acquire and each release takes one.", "Move closer to the server."
        )
    return ok(f"{shown}.")


def clock(probe: Probe) -> Outcome:
    """Check that the clocks agree; locks do not need it, people do."""
    # The fastest answer says most about the moment in which it was given.
    ahead = min(_samples(probe)).ahead
    if abs(ahead) < _CLOCKS_AGREE:
        return ok(f"The server's clock is {abs(ahead) * 1000:.1f} ms away from ours.")
    return warning(
        f"The server's clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} ours. "
        "Locks do not depend on it, but times in logs will not match.",
        "Let both machines take their time from the same source (NTP).",
    )


def away(probe: Probe) -> Outcome | None:
    """Return since when the server has not answered calls of this process; None if it has.

    Asks nobody.
    """
    breaker = probe.endpoint.breaker
    if not breaker.trouble:
        return None
    following = " Further ones fail at once." if breaker.is_open else ""
    return warning(
        f"{breaker.description} has not answered this process for {breaker.away_for:.1f} s. "
        f"{breaker.asks} of its calls have failed.{following}",
        "Start the server, or find out why this process cannot reach it.",
    )


def outages(probe: Probe) -> Outcome:
    """Check that calls are answered.

    It counts those of this process now, and those of all in the last hour.
    """
    if verdict := away(probe):
        return verdict
    try:
        failed = recent(using=probe.using).unavailable
    except LockBackendError:
        failed = 0  # the other checks say why
    if failed:
        return warning(
            f"{failed} acquires of the last hour failed because Redis did not answer.",
            "Look for 'does not answer' in the logs of your processes, and at that time into the "
            "server's log.",
        )
    return ok("No acquire of the last hour failed because Redis did not answer.")


def shared_cache(probe: Probe) -> Outcome:
    """Check that no cache's clear(), which is FLUSHDB, removes the locks."""
    sharing = caches_beside(probe.using)
    if not sharing:
        return ok("No cache in CACHES uses the database that keeps the locks.")
    named = ", ".join(f"caches['{alias}'].clear()" for alias in sharing)
    if SHARED_WITH_CACHE in settings.SILENCED_SYSTEM_CHECKS:
        return ok(
            f"{named} empties the database of the locks; {SHARED_WITH_CACHE} is in "
            "SILENCED_SYSTEM_CHECKS."
        )
    return warning(
        f"{named} empties the database, and with it all locks.",
        f"Give the locks a database of their own: {probe.entry} = 'redis://…/1'.",
    )


def locking(probe: Probe) -> Outcome:
    """Check that a lock can be acquired and released, by doing so."""
    since = time.monotonic()
    try:
        with Lock(LOCK_NAME, wait=5, lease=5, renew=False, using=probe.using):
            pass
    except LockError as failure:
        return error(
            f"No lock could be acquired and released: {reason(failure)}.",
            "See what the server says, and the other findings.",
        )
    took = (time.monotonic() - since) * 1000
    return ok(f"A lock was acquired and released in {took:.1f} ms.")
