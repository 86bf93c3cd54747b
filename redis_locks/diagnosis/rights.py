"""Check that our user may run what the locks need: commands, keys, channels."""

from __future__ import annotations

import re

from redis.exceptions import NoPermissionError

from redis_locks import scripts
from redis_locks.diagnosis.findings import Verdict, error, ok, reason
from redis_locks.diagnosis.probe import Probe
from redis_locks.keys import grant_channel, lock_keys

# The first argument may choose: redis.call(first and "LPUSH" or "RPUSH", key, ...); a second
# one in quotes is a subcommand, as our keys are never spelled out.
_CALLED = re.compile(rb'redis\.p?call\(([^,)]*)(?:, *"(\w+)")?')
_NAMED = re.compile(rb'"(\w+)"')

_CHANNELS = re.compile("PUBLISH|SUBSCRIBE|PUBSUB")

# A script may ask what its user may do, so it needs no right to ask but that to EVAL.
_ASK = """
local refused = {}
for _, line in ipairs(ARGV) do
  local command = {}
  for word in string.gmatch(line, "%S+") do
    command[#command + 1] = word
  end
  if not redis.acl_check_cmd(unpack(command)) then
    refused[#refused + 1] = command[1]
  end
end
return refused
"""


def used_commands() -> list[str]:
    """Return what the locks use, inside scripts and outside: commands, or `COMMAND|SUBCOMMAND`."""
    called = {
        b"|".join(filter(None, (name, subcommand))).decode()
        for script in scripts.ALL
        for argument, subcommand in _CALLED.findall(script.text)
        for name in _NAMED.findall(argument)
    }
    return sorted(called | {"EVAL", "EVALSHA", "SUBSCRIBE"})


def rights(probe: Probe) -> Verdict:
    """Check the rights of our user to each command with our keys and channels."""
    prefix = probe.settings.prefix
    user = probe.user
    needed = used_commands()
    # A selector adds to whatever the user may do already, and takes nothing away.
    fix = (
        f"ACL SETUSER {user} (~{prefix}{{* &{prefix}:* "
        f"{' '.join('+' + command.lower() for command in needed)})"
    )
    try:
        refused = probe.client.eval(_ASK, 0, *(_example(name, prefix) for name in needed))
    except NoPermissionError as refusal:
        return error(f"User '{user}' may not run scripts: {reason(refusal)}.", fix)
    if refused:
        return error(
            f"User '{user}' lacks the right to {', '.join(refused)} with the keys {prefix}{{* and "
            f"the channels {prefix}:*.",
            fix,
        )
    return ok(f"User '{user}' may use all {len(needed)} commands, with our keys and channels.")


def _example(command: str, prefix: str) -> str:
    """Return a call as the locks make it."""
    key, channel = lock_keys(prefix, 0, "x").holder.decode(), grant_channel(prefix, "x")
    if command == "TIME":
        return command
    if command.startswith("EVAL"):
        return f"{command} x 1 {key}"
    # As often as a command may want it: what is no key is a value, and may be anything.
    argument = channel if _CHANNELS.search(command) else key
    return " ".join([*command.split("|"), *[argument] * 4])
