"""Checks of the server itself, such as version, role and memory, and how it is, in one line."""

from __future__ import annotations

import re
from time import monotonic
from typing import NamedTuple

from redis import exceptions as redis_errors

from redis_locks.connections.backends import backend_for
from redis_locks.diagnosis.findings import Level, Outcome, error, ok, reason, warning
from redis_locks.diagnosis.probe import Probe, probes
from redis_locks.drivers import sentinel_url
from redis_locks.drivers.base import LinkBroken
from redis_locks.exceptions import LockBackendError

OLDEST = (7, 0)
"""The first Redis with PEXPIRETIME and PEXPIREAT GT, which the scripts use."""

_NEARLY_FULL = 0.9


def _through_sentinel(probe: Probe) -> str:
    return f"Set {probe.entry} to {sentinel_url.FORM}"


def reachable(probe: Probe) -> Outcome:
    """Check that there is a server that takes our connection."""
    where = "The node" if probe.endpoint.in_cluster else probe.endpoint.description
    try:
        mode = probe.hello["mode"]
    except redis_errors.AuthenticationError as refusal:
        return error(
            f"{where} refused our credentials: {reason(refusal)}.", "Correct user and password."
        )
    except (redis_errors.RedisError, OSError) as failure:
        return error(
            f"{where} cannot be reached: {reason(failure)}.",
            f"Start the server, or correct {probe.entry}.",
        )
    if mode == "sentinel":
        return error(f"{where} is a Sentinel, which keeps no locks.", _through_sentinel(probe))
    return ok(f"{where} answers.")


def scripting(probe: Probe) -> Outcome:
    """Check that it runs scripts at all; some servers have Lua in a module."""
    try:
        probe.client.eval("return 1", 0)
    except redis_errors.NoPermissionError:
        pass  # the check of rights says so
    except redis_errors.ResponseError as refusal:
        return error(
            f"The server runs no Lua scripts: {reason(refusal)}. No lock can be acquired.",
            "Load its Lua module, with `loadmodule` in its configuration, or use Redis 7.0 or "
            "later.",
        )
    return ok("The server runs Lua scripts.")


def version(probe: Probe) -> Outcome:
    """Check that the scripts' commands are there."""
    server, number = str(probe.hello["server"]), str(probe.hello["version"])
    release = tuple(int(part) for part in re.findall(r"\d+", number)[:2])
    # Valkey began with 7.2.
    if server == "redis" and release < OLDEST:
        return error(
            f"{server} {number} is too old: the scripts use PEXPIRETIME.",
            "Upgrade to Redis 7.0 or later, or to Valkey.",
        )
    return ok(f"{server} {number} has all commands that the scripts use.")


def role(probe: Probe) -> Outcome:
    """Check that it takes writes."""
    if probe.hello["role"] == "master":
        return ok("The server is a primary.")
    return error(
        "The server is a read-only replica: no lock can be acquired.",
        f"Point {probe.entry} at its primary.",
    )


def eviction(probe: Probe) -> Outcome:
    """Check that memory pressure does not remove locks."""
    policy, most = str(probe.info["maxmemory_policy"]), int(probe.info["maxmemory"])
    used = int(probe.info["used_memory"])
    if policy != "noeviction":
        # Each key of ours has an expiry, so the volatile policies evict it too.
        fix = "CONFIG SET maxmemory-policy noeviction, or give the locks a server of their own."
        if most:
            gone = int(probe.info["evicted_keys"])
            return error(
                f"maxmemory-policy {policy} may remove a held lock when memory is short "
                f"({gone} keys evicted so far): two holders would not know of each other.",
                fix,
            )
        return warning(
            f"maxmemory-policy is {policy}; it removes nothing only as long as maxmemory is 0.", fix
        )
    if most and used > most * _NEARLY_FULL:
        return warning(
            f"{used / most:.0%} of maxmemory is used; without memory no lock can be acquired.",
            "Raise maxmemory, or remove what is not needed.",
        )
    return ok("maxmemory-policy is noeviction: memory pressure removes no lock.")


def persistence(probe: Probe) -> Outcome:
    """Check what a restart of the server keeps."""
    info = probe.info
    if info.get("aof_enabled") and info.get("aof_last_write_status") != "ok":
        return error(
            "The append-only file cannot be written; the server refuses writes.",
            "Look into the server's log, and free disk space.",
        )
    if info.get("aof_enabled"):
        return ok("Append-only file: a restart keeps the locks, but for the last second or so.")
    return warning(
        "No append-only file: a restart forgets the locks that are held. Their holders learn of "
        "it at the next renewal; until then others can acquire the same locks.",
        "CONFIG SET appendonly yes, or have resources check fencing tokens.",
    )


def replicas(probe: Probe) -> Outcome:
    """Check what a fail-over keeps."""
    count, wanted = int(probe.info["connected_slaves"]), probe.settings.replicas
    if count < wanted:
        return error(
            f"{_replicas(count)}, but REDIS_LOCKS['REPLICAS'] is {wanted}: no lock can be "
            "acquired.",
            "Connect more replicas, or lower REPLICAS.",
        )
    if wanted:
        return ok(f"{_replicas(count)}; {wanted} of them have to know of each hold (REPLICAS).")
    if not count:
        return ok("No replicas, so there is no fail-over that could lose locks.")
    if "min_slaves_good_slaves" in probe.info:
        return ok(
            f"{_replicas(count)}, and min-replicas-to-write is set: a primary that is cut off "
            "stops to grant locks."
        )
    return warning(
        f"{_replicas(count)}, but min-replicas-to-write is 0: a primary that is cut off goes on "
        "granting locks that its successor does not know.",
        "CONFIG SET min-replicas-to-write 1, CONFIG SET min-replicas-max-lag 10, set REPLICAS, or "
        "have resources check fencing tokens.",
    )


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"


def sentinel(probe: Probe) -> Outcome:
    """Check whether a fail-over may leave us behind."""
    if probe.endpoint.sentinels is not None:
        return ok("The primary is found through Sentinel, before and after a fail-over.")
    _, watchers = probe.client.execute_command("PUBSUB", "NUMSUB", "__sentinel__:hello")
    if not watchers:
        return ok("No Sentinel watches the server.")
    return warning(
        f"{watchers} Sentinels watch the server; after a fail-over {probe.entry} still names the "
        "old primary.",
        f"{_through_sentinel(probe)}, and have resources check fencing tokens.",
    )


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

    That is much less than `diagnose` finds out. None, too, if `override_locks` stands for it.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    if not backend_for(using).has_server:
        return None
    opened: list[Probe] = []
    try:
        opened = probes(using)
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
    except (
        redis_errors.ConnectionError,
        redis_errors.TimeoutError,
        OSError,
        LinkBroken,
    ) as failure:
        raise LockBackendError(str(failure)) from failure
    except (redis_errors.RedisError, KeyError):
        return None
    finally:
        for each in opened:
            each.close()
