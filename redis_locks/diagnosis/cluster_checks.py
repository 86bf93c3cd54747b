"""Checks of a cluster, and what its masters have found together."""

from __future__ import annotations

from collections.abc import Mapping

from redis import exceptions as redis_errors

from redis_locks.connections.backends import backend_for
from redis_locks.diagnosis.findings import Level, Outcome, error, ok, reason, warning
from redis_locks.diagnosis.probe import Probe, spread
from redis_locks.drivers.addresses import Address

_GOOD_PARTITIONS = 64


def cluster(probe: Probe) -> Outcome:
    """Check that the locks are spread over the masters of a cluster, if it is one."""
    if probe.endpoint.in_cluster:
        return _spread(probe)
    if probe.hello["mode"] != "cluster":
        return ok("The server is not part of a cluster.")
    return _one_node(probe)


def _one_node(probe: Probe) -> Outcome:
    host = probe.endpoint.kwargs.get("host", "host")
    fix = f"Set {probe.entry} to redis+cluster://{host}:{probe.info['tcp_port']}."
    try:
        for keys in backend_for(probe.using).partitions():
            probe.client.eval("return 1", 1, *keys)
    except (redis_errors.MovedError, redis_errors.AskError) as moved:
        return error(f"A part of the locks lives on another node of a cluster ({moved}).", fix)
    except redis_errors.ClusterDownError as down:
        return error(
            f"The cluster does not work: {reason(down)}.", "See CLUSTER INFO on its nodes."
        )
    return warning(
        "The server is part of a cluster. All locks live on this node now; when their slots move, "
        "locks cannot be acquired.",
        fix,
    )


def _spread(probe: Probe) -> Outcome:
    state = probe.client.execute_command("CLUSTER INFO")["cluster_state"]
    if state != "ok":
        return error(f"The state of the cluster is {state}.", "See CLUSTER INFO on its nodes.")
    counts = spread(probe.using)
    homeless = counts.pop(None, 0)
    if homeless:
        return error(
            f"{homeless} of {probe.settings.partitions} partitions have no master.",
            "See CLUSTER SLOTS; each slot needs a node.",
        )
    shares = ", ".join(f"{host}:{port} {count}" for (host, port), count in _sorted(counts))
    if probe.settings.partitions == 1:
        return warning(
            f"All locks are on one node ({shares}), because REDIS_LOCKS['PARTITIONS'] is 1.",
            f"Stop all processes and set it to {_GOOD_PARTITIONS}, to use all masters.",
        )
    return ok(f"The partitions are spread over {len(counts)} masters: {shares}.")


def _sorted(found: Mapping[Address | None, int]) -> list[tuple[Address, int]]:
    return sorted((address, count) for address, count in found.items() if address is not None)


def together(verdicts: Mapping[Probe, Outcome]) -> Outcome:
    """Return one verdict for some servers: the worst, with the names of those that it is about."""
    if len(verdicts) == 1:
        (verdict,) = verdicts.values()
        return verdict
    worst = max((verdict.level for verdict in verdicts.values()), key=list(Level).index)
    by_message: dict[str, list[str]] = {}
    fixes: dict[str, None] = {}
    for probe, (level, message, fix) in verdicts.items():
        if level is worst:
            by_message.setdefault(message, []).append("{}:{}".format(*probe.address))
            fixes[fix] = None
    messages = (
        f"{'all masters' if len(nodes) == len(verdicts) else ', '.join(nodes)}: {message}"
        for message, nodes in by_message.items()
    )
    return Outcome(worst, " ".join(messages), " ".join(filter(None, fixes)))
