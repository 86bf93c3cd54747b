"""Check that our user may run what the locks need: commands, keys, channels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from redis.exceptions import NoPermissionError

from redis_locks import scripts
from redis_locks.compat.commands import ALL as COMPAT
from redis_locks.diagnosis.findings import Outcome, error, ok, reason, warning
from redis_locks.diagnosis.probe import Probe
from redis_locks.run_once.scripts import ALL as RUN_ONCE
from redis_locks.statistics.scripts import ALL as STATISTICS
from redis_locks.values.keys import (
    conflicts_key,
    grant_channel,
    index_key,
    lock_keys,
    partition_channel,
)

# The first argument may choose: redis.call(first and "LPUSH" or "RPUSH", key, ...); a second
# one in quotes is a subcommand, as our keys are never spelled out.
_CALLED = re.compile(rb'\bp?call\(([^,)]*)(?:, *"(\w+)")?')
_NAMED = re.compile(rb'"(\w+)"')

_CHANNELS = re.compile("PUBLISH|SUBSCRIBE|PUBSUB")

_OUTSIDE_SCRIPTS = ("EVAL", "EVALSHA", "PUBLISH", "SUBSCRIBE")
_OUTSIDE_IN_CLUSTER = (*_OUTSIDE_SCRIPTS, "ASKING", "CLUSTER|SLOTS", "SSUBSCRIBE")

# What `optimistic` sends; a test runs it with just these rights.
_TRANSACTIONS = frozenset({
    "EXEC", "EXPIRE", "GET", "MULTI", "SET", "UNWATCH", "WATCH", "ZINCRBY", "ZREMRANGEBYRANK",
    "ZREVRANGE",
})  # fmt: skip

# A script may ask what its user may do, so it needs no right to ask but that to EVAL.
_ASK = """
local refused = {}
for _, line in ipairs(ARGV) do
  local command = {}
  for word in string.gmatch(line, "%S+") do
    command[#command + 1] = word
  end
  -- Redis 8 answers only to as many arguments as the command may have.
  local name, known, allowed = command[1], nil, nil
  repeat
    known, allowed = pcall(redis.acl_check_cmd, unpack(command))
    command[#command] = nil
  until known or #command == 0
  if not known then
    return allowed
  end
  if not allowed then
    refused[#refused + 1] = name
  end
end
return refused
"""


def used_commands(*, in_cluster: bool = False) -> list[str]:
    """Return what the locks use, inside scripts and outside: commands, or `COMMAND|SUBCOMMAND`."""
    if in_cluster:
        return sorted({*_called(map(scripts.on_cluster, scripts.ALL)), *_OUTSIDE_IN_CLUSTER})
    return sorted({*_called(scripts.ALL), *_OUTSIDE_SCRIPTS})


def further_commands() -> dict[str, list[str]]:
    """Return what else a part of the package uses that can be left alone: by part, commands."""
    # What only these use is the same on a cluster.
    locks = set(used_commands())
    return {
        "compat": sorted(_called(COMPAT) - locks),
        "run_once": sorted(_called(RUN_ONCE) - locks),
        "statistics": sorted(_called(STATISTICS) - locks),
        "optimistic": sorted(_TRANSACTIONS - locks),
        "replicas": ["WAIT"],
        "quick hand-offs": ["BLPOP", "CLIENT|REPLY"],
        "tests of idle connections": ["PING"],
    }


def rule(prefix: str, *, database: int = 0, in_cluster: bool = False) -> str:
    """Return an ACL rule with the rights that the package needs, and no others.

    It is a selector, which adds to whatever a user may do already and takes nothing away. The
    keys that `optimistic`, `read=` and `Hold.commit` are given, and what is done to them, are
    not part of it.

    Args:
        prefix: REDIS_LOCKS["PREFIX"].
        database: The number of the database; any but 0 has to be selected.
        in_cluster: Whether it is for the nodes of a cluster.
    """
    further = (command for commands in further_commands().values() for command in commands)
    used = used_commands(in_cluster=in_cluster)
    needed = {*used, *further, *(["SELECT"] if database else [])}
    commands = " ".join(f"+{command.lower()}" for command in sorted(needed))
    sharded = f" &{prefix}{{*" if in_cluster else ""
    return f"(~{prefix}{{* ~{prefix}:* &{prefix}:*{sharded} {commands})"


def rights(probe: Probe) -> Outcome:
    """Check the rights of our user to each command with our keys and channels."""
    prefix = probe.settings.prefix
    user = probe.user
    in_cluster = probe.endpoint.in_cluster
    needed, further = used_commands(in_cluster=in_cluster), further_commands()
    database = int(probe.endpoint.kwargs.get("db") or 0)
    fix = f"ACL SETUSER {user} {rule(prefix, database=database, in_cluster=in_cluster)}"
    sharded = f" and {prefix}{{*" if in_cluster else ""
    with_ours = f"with the keys {prefix}{{* and {prefix}:*, and the channels {prefix}:*{sharded}"
    try:
        refused = _refused(probe, needed)
        lacking = {part: _refused(probe, commands) for part, commands in further.items()}
    except NoPermissionError as refusal:
        return error(f"User '{user}' may not run scripts: {reason(refusal)}.", fix)
    if refused:
        return error(f"User '{user}' lacks the right to {', '.join(refused)} {with_ours}.", fix)
    parts = [f"{part} ({', '.join(commands)})" for part, commands in lacking.items() if commands]
    if parts:
        return warning(
            f"User '{user}' can use locks, but lacks rights for {' and '.join(parts)} {with_ours}.",
            fix,
        )
    count = len(needed) + sum(map(len, further.values()))
    return ok(f"User '{user}' may use all {count} commands, with our keys and channels.")


def _called(loaded: Iterable[Any]) -> set[str]:
    return {
        b"|".join(filter(None, (name, subcommand))).decode()
        for script in loaded
        for argument, subcommand in _CALLED.findall(script.text)
        for name in _NAMED.findall(argument)
    }


def _refused(probe: Probe, commands: Iterable[str]) -> list[str]:
    prefix = probe.settings.prefix
    refused = probe.client.eval(_ASK, 0, *(_example(command, prefix) for command in commands))
    return [str(command) for command in refused]


def _example(command: str, prefix: str) -> str:
    """Return a call as it is made."""
    key, channel = lock_keys(prefix, 0, "x").lock.decode(), grant_channel(prefix, "x")
    if command in {"SPUBLISH", "SSUBSCRIBE"}:
        channel = partition_channel(index_key(prefix, 0), "x")
    if command.startswith("EVAL"):
        return f"{command} x 1 {key}"
    if command in _TRANSACTIONS and command not in used_commands():
        key = conflicts_key(prefix)
    # As often as a command may want it: what is no key is a value, and may be anything.
    argument = channel if _CHANNELS.search(command) else key
    return " ".join([*command.split("|"), *[argument] * 4])
