"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

from redis import exceptions as redis_errors

from redis_locks.conf.settings import get_settings
from redis_locks.diagnosis import client, cluster_checks, features, rights, server_checks
from redis_locks.diagnosis.findings import Finding, Level, Outcome, error, reason, warning
from redis_locks.diagnosis.probe import Probe, probes
from redis_locks.drivers.base import LinkBroken
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.time_limit import bounded

REACHABLE = "server"
"""The check that the server answers; if it fails, there are no others but `OUTAGES`."""
OUTAGES = "outages"
"""The check that calls are answered; if the server cannot be reached, it tells of calls that
failed.
"""
SCRIPTING = "scripting"
"""The check that the server runs scripts; if it fails, there are no others after it."""

_ANSWERS_WITHIN = 2.75
"""Seconds in which a server must take a connection and answer. To find it may take several
questions, as with Sentinels.
"""


def _reachable(probe: Probe) -> Outcome:
    try:
        return bounded(_ANSWERS_WITHIN, partial(server_checks.reachable, probe), probe.using)
    except LockBackendError as silence:
        return error(f"{reason(silence)}.", f"Start the server, or correct {probe.entry}.")


_CHECKS: dict[str, Callable[[Probe], Outcome]] = {
    REACHABLE: _reachable,
    SCRIPTING: server_checks.scripting,
    "version": server_checks.version,
    "role": server_checks.role,
    "rights": rights.rights,
    "features": features.features,
    "locking": client.locking,
    OUTAGES: client.outages,
    "eviction": server_checks.eviction,
    "shared cache": client.shared_cache,
    "persistence": server_checks.persistence,
    "replicas": server_checks.replicas,
    "sentinel": server_checks.sentinel,
    "cluster": cluster_checks.cluster,
    "clock": client.clock,
    "latency": client.latency,
}
# What has nothing to do with single nodes of a cluster.
_OF_THE_WHOLE = {"locking", "shared cache", "cluster"}


def diagnose(*, using: str | None = None) -> list[Finding]:
    """Return what each check of the server, or of a cluster's masters, found.

    Blocks for some dozens of round trips each.

    That the server cannot be reached is a finding as well, within 3 s. Then the only other one is
    of calls of this process that have failed.

    Args:
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.

    Raises:
        ImproperlyConfigured: `using` or a setting is wrong.
    """
    with ExitStack() as stack:
        try:
            reached = bounded(_ANSWERS_WITHIN, partial(probes, using), using)
        except (LinkBroken, LockBackendError) as failure:
            fix = f"Start the cluster, or correct {get_settings().entry(using)}."
            return [Finding(REACHABLE, *error(f"{reason(failure)}.", fix))]
        opened = [stack.enter_context(closing(probe)) for probe in reached]
        return list(_findings(opened))


def _findings(opened: Sequence[Probe]) -> Iterator[Finding]:
    for name, check in _CHECKS.items():
        asked = opened[:1] if name in _OF_THE_WHOLE else opened
        verdict = cluster_checks.together({probe: _verdict(check, probe) for probe in asked})
        yield Finding(name, *verdict)
        if verdict.level is Level.ERROR and name == REACHABLE:
            away = {probe: told for probe in opened if (told := client.away(probe))}
            if away:
                yield Finding(OUTAGES, *cluster_checks.together(away))
            return
        if verdict.level is Level.ERROR and name == SCRIPTING:
            return


def _verdict(check: Callable[[Probe], Outcome], probe: Probe) -> Outcome:
    try:
        return check(probe)
    except redis_errors.NoPermissionError as refusal:
        return warning(
            f"Not checked: {reason(refusal)}.",
            f"Grant '{probe.user}' the right, or look at it by hand.",
        )
    except (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError) as failure:
        return error(f"The server stopped to answer: {reason(failure)}.", "Run the checks again.")
    except redis_errors.AskError as elsewhere:
        return warning(
            f"Not checked: another node has the slot ({reason(elsewhere)}).",
            "Run the checks again once no slot moves.",
        )
    except redis_errors.RedisError as failure:
        return warning(f"Not checked: {reason(failure)}.", "Look at it by hand.")
