"""What a test leaves behind, and a later test of its process would stumble over."""

from __future__ import annotations

import re
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_locks.protocol.callers import session
from tests.support import stored

_OF_A_LOCK = re.compile(rb"\{\d+\}:")
"""What the keys of locks have in common, whatever their prefix."""


class Leftovers:
    """What is there already, in this thread and on a server. A test is blamed for the rest."""

    def __init__(self, url: str) -> None:
        # A test may kill all connections.
        self._client: Any = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 1))
        self._holds: set[int] = set()
        self._keys: set[bytes] = set()

    def of_a_test(self) -> list[str]:
        """Return what was not there when the test before ended."""
        return self._new_holds() + self._new_keys()

    def _new_holds(self) -> list[str]:
        """Return what this thread has acquired and not released: its later COMMITs check that."""
        still = {id(lease): lease for lease in list(session().held.open) if lease.is_open}
        new = still.keys() - self._holds
        self._holds = set(still)
        return [f"a hold of {still[number].name!r} in this thread" for number in new]

    def _new_keys(self) -> list[str]:
        """Return the keys of locks that no time ends.

        To count is quick, to look through thousands of keys is not.
        """
        space = self._client.info("keyspace").get("db0", {"keys": 0, "expires": 0})
        if space["keys"] - space["expires"] == len(self._keys):
            return []
        still = stored.without_expiry(self._client, "*")
        new = still - self._keys
        self._keys = still
        return [f"the key {key!r} without an expiry" for key in new if _OF_A_LOCK.search(key)]
