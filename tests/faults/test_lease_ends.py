"""No lease ends on the server before it ends by its holder's clock, not even by 0.1 ms."""

from __future__ import annotations

import time

import pytest

from redis_locks import Lock
from tests.elsewhere import in_thread
from tests.support import leases

LEASE = 0.02
TRIES = 40


@pytest.mark.verdict
@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_a_lock_is_not_given_on_while_its_holder_may_believe_in_it(
    redis_server: object, name: str, mode: str
) -> None:
    early = []
    for _ in range(TRIES):
        hold = Lock(name, mode=mode, lease=LEASE, renew=False).acquire(wait=0)
        assert hold is not None
        while (successor := in_thread(Lock(name).acquire, wait=0)) is None:
            pass
        granted = time.monotonic()
        early.append(leases.ends_at(hold) - granted)
        successor.release()
        leases.is_over(hold)
        leases.desert(hold)
    assert max(early) <= 0
