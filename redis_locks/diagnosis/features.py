"""What locks ask of a server beyond commands and rights.

Servers that speak Redis's protocol may lack it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from redis import exceptions as redis_errors

from redis_locks.diagnosis.findings import Outcome, error, ok, reason, warning
from redis_locks.diagnosis.probe import Probe
from redis_locks.values.identity import random_text
from redis_locks.values.keys import grant_channel, partition_channel

_SERVERS = "Use Redis 7.0 or later, or Valkey."

_NO_WRITES = ("NOREPLICAS", "MISCONF")
"""How a server refuses to write at all, whatever it can."""


class _Feature(NamedTuple):
    name: str
    works: Callable[[Probe, Any], bool]
    """Whether it does; gets a connection of its own. Raises redis-py's errors, which say no, too.
    """
    without: str
    """What does not work without it."""
    is_needed: bool = True
    in_cluster: bool | None = None
    """Whether only a cluster's nodes, or only other servers, are asked for it; None: all."""


def _asked(connection: Any, *words: object) -> Any:
    connection.send_command(*words)
    return connection.read_response()


def _time_in_scripts(probe: Probe, connection: Any) -> bool:
    script = "local time = redis.call('TIME') redis.call('ZREM', KEYS[1], '') return time"
    return len(_asked(connection, "EVAL", script, 1, probe.index)) == 2  # noqa: PLR2004 - seconds and the rest


def _pushes(probe: Probe, connection: Any) -> bool:
    channel = _channel(probe)
    connection.send_command("SUBSCRIBE", channel)
    connection.send_command("PING", channel)
    replies = [connection.read_response(push_request=True) for _ in range(2)]
    return channel in replies


def _receivers(probe: Probe, connection: Any) -> bool:
    channel = _channel(probe)
    connection.send_command("SUBSCRIBE", channel)
    connection.read_response(push_request=True)
    script = "return redis.call('PUBLISH', ARGV[1], '')"
    return bool(probe.client.eval(script, 1, probe.index, channel) == 1)


def _silence(_probe: Probe, connection: Any) -> bool:
    connection.send_command("CLIENT", "REPLY", "SKIP")
    connection.send_command("PING", "skipped")
    return bool(_asked(connection, "PING", "answered") == "answered")


def _sharded(probe: Probe, connection: Any) -> bool:
    channel = partition_channel(probe.index, random_text(8))
    connection.send_command("SSUBSCRIBE", channel)
    connection.read_response(push_request=True)
    return True


def _channel(probe: Probe) -> str:
    return grant_channel(probe.settings.prefix, random_text(8))


_FEATURES = (
    _Feature("TIME in scripts that write", _time_in_scripts, "no lock can be acquired"),
    _Feature(
        "RESP3 pushes on a connection for commands",
        _pushes,
        "no lock can be acquired",
        in_cluster=False,
    ),
    _Feature(
        "the count of receivers of a PUBLISH in a script",
        _receivers,
        "a lock that is released to a waiter waits until that asks again, and crash_release ends "
        "living holders",
        in_cluster=False,
    ),
    _Feature(
        "sharded pub/sub", _sharded, "no waiter is told that its turn has come", in_cluster=True
    ),
    _Feature(
        "CLIENT REPLY SKIP",
        _silence,
        "hand-offs within milliseconds take one more wake-up",
        is_needed=False,
    ),
)


def features(probe: Probe) -> Outcome:
    """Check what the server can; says which feature of locks will not work."""
    asked = [
        each for each in _FEATURES if each.in_cluster in (None, bool(probe.endpoint.in_cluster))
    ]
    missing = [(each, why) for each in asked if (why := _lacks(probe, each)) is not None]
    if not missing:
        return ok(f"The server has all {len(asked)} features that locks ask of it.")
    said = " ".join(f"The server lacks {each.name}{why}: {each.without}." for each, why in missing)
    if any(each.is_needed for each, _ in missing):
        return error(said, _SERVERS)
    return warning(said, _SERVERS)


def _lacks(probe: Probe, feature: _Feature) -> str | None:
    """Return None if it works, else what the server said, in brackets."""
    connection = probe.connection()
    try:
        return None if feature.works(probe, connection) else ""
    except redis_errors.NoPermissionError:
        return None  # the check of rights says so
    except redis_errors.TimeoutError:
        return " (no answer)"
    except (redis_errors.AskError, redis_errors.ClusterDownError, redis_errors.ReadOnlyError):
        # Not a missing feature: the slot has moved, the cluster is down, or this is a replica.
        raise
    except redis_errors.ResponseError as refusal:
        if str(refusal).startswith(_NO_WRITES):
            raise
        if "ACL failure" in str(refusal):  # of a command in a script
            return None
        return f" ({reason(refusal)})"
    finally:
        connection.disconnect()
