"""Two hundred processes of one server want one lock, and have it one after the other, in order."""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import suppress

import pytest

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.contract.crowding import forked_crowds, notes, overtaken
from tests.support import stored
from tests.support.children import processes
from tests.support.world import PATIENCE, Observer, Threads, held, keys_of, until

PROCESSES, TIMES = 200, 3
START = 3 * PATIENCE
"""Seconds until all must stand in the queue; it takes 5 to 9 on two cores that others use too."""
BOUND = 3 * PATIENCE
"""Seconds from then on until all must have had it so often; it takes 3."""


def all_wait(server_side: Observer, name: str) -> bool:
    time.sleep(0.1)  # whoever looks takes part of a core from those who start
    return server_side.waiters(name) == PROCESSES


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_hundred_processes_have_it_one_after_the_other(
    private_server: EmbeddedServer, name: str
) -> None:
    url = private_server.url
    hold = held(Threads(), Lock(name, using=url, lease=2 * START))
    args = (PROCESSES, url, name, TIMES, START + BOUND)
    parent = processes.Process(target=forked_crowds, args=args)
    parent.start()
    try:
        with private_server.client() as client:
            server_side = Observer(client)
            until(lambda: all_wait(server_side, name), within=START)
            queue = [token.decode() for token in stored.line(client, keys_of(name).lock)]
            # Of each process its link and its own client; here the test's, and those of its hold.
            assert len(client.client_list()) <= 2 * PROCESSES + 10
            hold.release()
            began = time.monotonic()
            parent.join(BOUND)
            assert 0 == parent.exitcode
            took = time.monotonic() - began
            kept = notes(client, name)
            assert set() == server_side.left_of(name)
    finally:
        if parent.is_alive():
            with suppress(ProcessLookupError):  # it has just begun, or ended
                os.killpg(parent.pid, signal.SIGKILL)
    assert PROCESSES * TIMES == len(kept)
    assert {1} == {note.holders for note in kept}
    assert all(before.fence < after.fence for before, after in itertools.pairwise(kept))
    # In the order in which they came, and nobody twice before all that stood there.
    assert queue == [note.token for note in kept[:PROCESSES]]
    assert 0 == max(overtaken(kept))
    assert took < BOUND
