"""What a summary says of a lock: what is going on with it, how it ranks, and how many wait."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks.inspection.cases import Case, case_of
from redis_locks.inspection.filters import LockState
from redis_locks.inspection.headline import crowd_text
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.survey import Crowd, crowd
from redis_locks.statistics.usual import Recent, Usual


def lock(name: str = "a", **changes: Any) -> Summary:
    calm = Summary(name, 0, 0.0, 1, 0.1, 29.0, 30.0, "", "")
    return calm._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "usual", "case"),
    [
        ({}, None, Case.NORMAL),
        ({"holding": 0, "waiting": 1}, None, Case.HAND_OFF),
        ({"gone": 1, "lease_left": 3600.0, "lease": 3600.0}, None, Case.GONE),
        ({"gone": 1, "name": "queued:mail"}, None, Case.NORMAL),
        ({"lease_left": 9.0}, None, Case.STALE),
        ({"held_for": 11.0}, Usual(0.1, 0.3), Case.LONG),
        ({"held_for": 11.0}, Usual(4.0, 5.0), Case.NORMAL),
        ({"waiting": 9}, Usual(0.3, 0.4), Case.CONVOY),
        ({"waiting": 9}, None, Case.NORMAL),
        ({"waiting": 2}, Usual(2.0, 3.0), Case.NORMAL),
        ({"waiting": 9}, Usual(0.01, 0.2), Case.NORMAL),
        # Ten permits serve ten times as many.
        ({"waiting": 9, "holding": 10}, Usual(0.3, 0.4), Case.NORMAL),
        # Holds are not as usual: that is why they wait.
        ({"waiting": 9, "held_for": 2.0}, Usual(0.3, 0.4), Case.NORMAL),
    ],
)
def test_each_trouble_has_its_case(
    changes: dict[str, Any], usual: Usual | None, case: Case
) -> None:
    assert case is case_of(lock(**changes), lambda _: usual)


def test_trouble_ranks_before_waiters_and_those_before_the_rest() -> None:
    none = Recent({})
    ranks = [
        LockState.of(lock(**changes), none, deadlock).rank
        for changes, deadlock in (
            ({"gone": 1}, None),
            ({"waiting": 1, "oldest_wait": 10.0}, None),
            ({"waiting": 1, "oldest_wait": 9.0}, None),
            ({"lease_left": 9.0, "waiting": 1}, None),
            ({"lease_left": 9.0}, None),
            ({}, 1.7e9),
            ({}, None),
        )
    ]
    assert [0, 0, 2, 0, 3, 0, 3] == ranks


def test_a_waiter_of_several_locks_counts_once() -> None:
    both = ("s.1", "t.1")
    assert Crowd(2, 4) == crowd(
        [lock("a", waiting=2, several=both), lock("b", waiting=2, several=both)]
    )
    assert Crowd(3, 4) == crowd(
        [lock("a", waiting=2, several=("s.1",)), lock("b", waiting=2, several=("s.1",))]
    )
    assert Crowd(0, 0) == crowd([lock()])


def test_of_one_endless_line_all_are_counted_and_of_two_only_the_places() -> None:
    endless = lock("a", waiting=9000, unseen=8000)
    assert Crowd(9001, 9001) == crowd([endless, lock("b", waiting=1)])
    # Whoever wants several locks may stand where nobody looked.
    assert Crowd(None, 9001) == crowd([endless, lock("b", waiting=1, several=("s.1",))])
    assert Crowd(None, 18000) == crowd([endless, endless._replace(name="b")])
    assert Crowd(None, 9007) == crowd([endless], [7])


@pytest.mark.parametrize(
    ("waiting", "counted", "text"),
    [
        (Crowd(1, 1), True, "1 waiter"),
        (Crowd(3, 3), True, "3 waiters"),
        (Crowd(3, 6), True, "3 waiters in 6 places"),
        (Crowd(1, 2), True, "1 waiter in 2 places"),
        (Crowd(None, 18000), True, "18,000 places in queues"),
        (Crowd(12000, 12000), False, "At least 12,000 waiters"),
    ],
)
def test_a_sentence_says_places_only_where_they_differ(
    waiting: Crowd, counted: bool, text: str
) -> None:
    assert text == crowd_text(waiting, counted=counted)
