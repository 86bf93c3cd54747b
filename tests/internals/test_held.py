"""What a thread has is not walked through, however much that is."""

from __future__ import annotations

from redis_locks.protocol.callers import Held

MANY = 1500


def test_a_waiter_that_holds_much_is_not_asked_about_all_of_it() -> None:
    asked = []

    class Lease:
        @property
        def is_held(self) -> bool:
            asked.append(self)
            return True

    held = Held("somebody")
    held.open.update((Lease(), None) for _ in range(MANY))
    assert held.has_any()
    assert 1 == len(asked)
