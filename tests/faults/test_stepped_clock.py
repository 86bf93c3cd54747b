"""The server's clock is set back while a lock is held, and set right again."""

from __future__ import annotations

import pytest

from redis_locks import Lock
from tests.elsewhere import in_thread
from tests.faults import clock
from tests.support.world import until

HOUR = 3600


@pytest.mark.skipif(clock.why_not() is not None, reason=str(clock.why_not()))
def test_a_holder_renews_in_time_for_the_clock_to_be_set_right(name: str) -> None:
    """Else another one would have the lock, while the holder believes in it for an hour."""
    with clock.server_with_a_clock() as (server, its_clock):
        hold = Lock(name, using=server.url, lease=4.5).acquire()
        its_clock.step(-HOUR)
        until(lambda: hold.remaining > HOUR / 2)
        its_clock.step(HOUR)
        until(lambda: hold.remaining < HOUR / 2)
        assert in_thread(Lock(name, using=server.url).acquire, wait=0) is None
        hold.release()
