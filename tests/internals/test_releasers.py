"""Who has begun to release a hold, and was interrupted, does not keep others from releasing it."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks import Lock
from tests.support.world import PATIENCE, Observer, Threads


class Interrupted(dict[Any, Any]):
    """Who releases a hold; it is interrupted as soon as it is noted, and so is what goes on then."""

    def setdefault(self, place: Any, releaser: Any = None) -> Any:
        noted = super().setdefault(place, releaser)
        if self.left:
            self.left -= 1
            raise KeyboardInterrupt
        return noted

    left = 2


def test_after_an_interrupt_another_thread_releases(name: str, server_side: Observer) -> None:
    hold = Lock(name, lease=60).acquire()
    assert hold
    hold.releaser = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        hold.release()
    assert server_side.holder(name)
    Threads().start(hold.release).result(PATIENCE)
    assert not server_side.holder(name)
    assert hold.released
