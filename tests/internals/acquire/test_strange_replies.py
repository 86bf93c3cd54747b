"""The first question gets the answer to none of ours.

The connection is out of step, and another one is asked.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from redis_locks import Lock
from redis_locks.drivers.blocking import BlockingLink
from redis_locks.testing.server import EmbeddedServer
from tests.support.strange import REPLIES
from tests.support.world import Observer


@pytest.mark.parametrize("position", [1, 2], ids=["acquire", "release"])
@pytest.mark.parametrize("strange", [what for what in REPLIES if what != "nothing"])
def test_an_answer_to_none_of_ours_is_no_error_of_the_callers(
    strange: str,
    position: int,
    name: str,
    own_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody else renews a hold there, and takes the connection for it.
    lock = Lock(name, wait=0, lease=60, using=own_server.url)
    with lock:
        pass
    exchange, asked, here = BlockingLink.exchange, 0, threading.get_ident()

    def exchanged(self: BlockingLink, packet: bytes) -> Any:
        nonlocal asked
        reply = exchange(self, packet)
        if threading.get_ident() != here:  # a thread of another test asks
            return reply
        asked += 1
        return REPLIES[strange] if asked == position else reply

    monkeypatch.setattr(BlockingLink, "exchange", exchanged)
    with own_server.client() as client:
        with lock as hold:
            assert hold.token == Observer(client).holder(name)
        assert asked >= position
        assert set() == Observer(client).left_of(name)
