"""A replicated hold counts once enough replicas know of it, and for no longer than they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from redis_locks.drivers.base import run_blocking
from redis_locks.exceptions import LockError
from redis_locks.protocol import lease as leases
from redis_locks.protocol import replication, retry
from redis_locks.protocol.callers import new_session
from redis_locks.protocol.lease import Lease
from redis_locks.protocol.plans import Plan, Terms
from redis_locks.values.keys import set_keys
from tests.support.leases import NobodyRenews

BEGAN, LEASE, SLOW = 100.0, 60.0, 3.0
"""In seconds, on a clock that goes on only while the server answers."""

HELD, LOST = b"token 1 1000 61000", b"token 0"


class Server:
    """A driver and its link, to a server that takes its time and has so many replicas that know."""

    description = "a server"
    suspends = False
    reply_timeout = 5.0

    def __init__(self, reply: bytes, acknowledged: int) -> None:
        self.now = BEGAN
        self.replies = [reply, acknowledged]

    def unshared(self) -> Server:
        return self

    async def checkout(self) -> Server:
        return self

    def checkin(self, link: Server) -> None: ...

    async def call(self, *_: object) -> Sequence[Any]:
        self.now += SLOW
        return self.replies


def lease_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A lease with two replicas that ends soon, where the server's time is the only one."""
    for module in (leases, replication, retry):
        monkeypatch.setattr(module, "monotonic", lambda: server.now)
    terms = Terms("exclusive", int(LEASE * 1000), replicas=2)
    renewer: Any = NobodyRenews()
    lease = Lease(Plan(terms, ("x",), set_keys("p", 0, ("x",))), new_session(), renewer, "token")
    lease.win(BEGAN + 2 * SLOW, 7)
    return lease


def test_an_extension_counts_from_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = Server(HELD, 2)
    lease = lease_on(server, monkeypatch)
    assert run_blocking(replication.extend(server, lease, int(LEASE * 1000)))
    assert BEGAN + LEASE == lease.deadline


@pytest.mark.parametrize(("said", "acknowledged"), [(LOST, 2), (HELD, 1)])
def test_a_grant_that_was_not_confirmed_with_it_is_confirmed_by_itself(
    monkeypatch: pytest.MonkeyPatch, said: bytes, acknowledged: int
) -> None:
    server: Any = Server(LOST, 2)
    lease = lease_on(server, monkeypatch)
    with pytest.raises(LockError, match="lost before its replicas knew"):
        run_blocking(replication.confirm(server, lease, [said, acknowledged]))
