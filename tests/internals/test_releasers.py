"""Who has begun to release a hold, and was interrupted, does not keep others from releasing it."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks import Lock
from tests.support.world import PATIENCE, Observer, Threads


class Interrupted(list[Any]):
    """Those that release a hold; the first is interrupted as soon as it is noted."""

    def append(self, releaser: Any) -> None:
        super().append(releaser)
        if not self.is_over:
            self.is_over = True
            raise KeyboardInterrupt

    is_over = False


def test_after_an_interrupt_another_thread_releases(name: str, server_side: Observer) -> None:
    hold = Lock(name, lease=60).acquire()
    assert hold
    hold._releasers = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        hold.release()
    assert server_side.holder(name)
    Threads().start(hold.release).result(PATIENCE)
    assert not server_side.holder(name)
    assert hold.released
