"""A bank account on a server that is never faulted; it refuses whom a later holder has overtaken.

A deposit is read, add, write, as an application without a transaction would do it, so two holders
at once lose money. The account raises its highest fencing token on the first touch, the read, and
refuses lower ones. What it counts beside that changes nothing in what it accepts.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import redis

# ARGV: fence, or 0 for a lock that has none. Reply: 0 if refused.
_TOUCH = """
local fence = tonumber(ARGV[1])
if fence > 0 then
  if fence < tonumber(redis.call("HGET", KEYS[1], "top") or "0") then
    redis.call("HINCRBY", KEYS[1], "fenced_off", 1)
    return 0
  end
  redis.call("HSET", KEYS[1], "top", ARGV[1])
end
"""

# ARGV: fence. Reply: {balance, version}, or 0 if refused.
_READ = f"""{_TOUCH}
return {{
    redis.call("HGET", KEYS[1], "balance") or "0",
    redis.call("HGET", KEYS[1], "version") or "0",
}}
"""

# ARGV: fence, new balance, amount, version that was read. Reply: 1, or 0 if refused.
_WRITE = f"""{_TOUCH}
if (redis.call("HGET", KEYS[1], "version") or "0") ~= ARGV[4] then
  redis.call("HINCRBY", KEYS[1], "stale", 1)
end
redis.call("HSET", KEYS[1], "balance", ARGV[2])
redis.call("HINCRBY", KEYS[1], "version", 1)
redis.call("HINCRBY", KEYS[1], "deposited", ARGV[3])
return 1
"""

# ARGV: fence. Reply: version. Nobody is refused, for others may read at the same time.
_LOOK = """
if tonumber(ARGV[1]) > tonumber(redis.call("HGET", KEYS[1], "top") or "0") then
  redis.call("HSET", KEYS[1], "top", ARGV[1])
end
return redis.call("HGET", KEYS[1], "version") or "0"
"""

_numbers = itertools.count(1)


class Books(NamedTuple):
    """Touches of the account: accepted, refused, and what went wrong with the accepted ones."""

    deposits: int
    fenced_off: int
    stale: int
    """Deposits based on a balance that somebody had changed since it was read: lost updates."""
    drift: int
    """Money that was paid in and is not there."""


class Ledger:
    """One account. Each process opens it with a client of its own."""

    def __init__(self, client: redis.Redis, account: str) -> None:
        self._client = client
        self._account = account
        self._read = client.register_script(_READ)
        self._write = client.register_script(_WRITE)
        self._look = client.register_script(_LOOK)

    def read(self, fence: int) -> tuple[int, int] | None:
        """Return balance and version, or None if a later holder was here."""
        reply = self._read(keys=[self._account], args=[fence])
        return (int(reply[0]), int(reply[1])) if reply else None

    def write(self, fence: int, seen: tuple[int, int], amount: int) -> bool:
        """Pay `amount` in on top of what was `seen`; False if a later holder was here."""
        balance, version = seen
        return bool(
            self._write(keys=[self._account], args=[fence, balance + amount, amount, version])
        )

    def look(self, fence: int) -> int:
        """Return the version, and keep earlier holders from writing."""
        return int(self._look(keys=[self._account], args=[fence]))

    def books(self) -> Books:
        """Return what was counted."""
        fields = ("version", "fenced_off", "stale", "deposited", "balance")
        found = [int(value or 0) for value in self._client.hmget(self._account, *fields)]
        version, fenced_off, stale, deposited, balance = found
        return Books(version, fenced_off, stale, deposited - balance)


def new_account() -> str:
    """Return the name of an account that nobody has used."""
    return f"account:{next(_numbers)}"
