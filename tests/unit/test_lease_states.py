"""The states of a lease: every verb in every state does what the table in its module says.

Nobody else writes them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any, Final

import pytest

from redis_locks.protocol import lease as leases
from redis_locks.protocol.callers import Held, Session, new_session
from redis_locks.protocol.lease import BY_HAND, LEASE_ENDED, NOT_KNOWN, Lease, State
from redis_locks.protocol.plans import Plan, Terms
from redis_locks.values.keys import set_keys
from tests.support.leases import NobodyRenews

FAR: Final = 1e12


HOLD = object()


VERBS: dict[str, Callable[[Lease], object]] = {
    "win": lambda lease: lease.win(FAR, 1),
    "lose": lambda lease: lease.lose(NOT_KNOWN),
    "leave": lambda lease: lease.leave(HOLD),
    "resume": lambda lease: lease.resume(HOLD),
}

SHARED: Final = [verb for verb in VERBS if verb != "win"]
"""The verbs that any thread may call: nobody else has a lease that has yet to be granted."""

CHANGES: Final = VERBS | {"renew": lambda lease: lease.renew(FAR + 1)}
"""The verbs, and what changes no state."""

WAYS: dict[State, list[str]] = {
    State.ASKING: [],
    State.HELD: ["win"],
    State.LOST: ["win", "lose"],
    State.ENDED: ["win", "leave"],
}
"""How a new lease gets into each state."""


def lease_that(*verbs: str, renewer: Any = None, session: Session | None = None) -> Lease:
    plan = Plan(Terms("exclusive", 9000), ("x",), set_keys("p", 0, ("x",)))
    lease = Lease(plan, session or new_session(), renewer or NobodyRenews(), "token")
    lease.begin(HOLD, "everybody")
    for verb in verbs:
        CHANGES[verb](lease)
    return lease


def table() -> dict[tuple[State, str], State]:
    """What the module's docstring says of each state and verb."""
    ruler, head, _, *rows = (leases.__doc__ or "").partition("    ====")[2].splitlines()
    starts = [at for at, sign in enumerate(f" {'=' * 4}{ruler}") if sign == "="]
    starts = [at + 3 for at in starts if at - 1 not in starts]
    cells = [
        [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        for line in (head, *rows[: len(State)])
    ]
    _, *verbs = cells[0]
    words = {state.value: state for state in State}
    return {
        (words[state], verb): words[state if after == "=" else after]
        for state, *afters in cells[1:]
        for verb, after in zip(verbs, afters, strict=True)
    }


def test_the_table_names_every_state_and_verb() -> None:
    assert {(state, verb) for state in State for verb in VERBS} == set(table())


@pytest.mark.parametrize("state", State, ids=lambda state: state.value)
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_leads_from_each_state_to_the_one_in_the_table(state: State, verb: str) -> None:
    lease = lease_that(*WAYS[state])
    assert state is lease.state
    VERBS[verb](lease)
    assert table()[state, verb] is lease.state


class Mutex:
    """The mutex of leases, which tells when a thread has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.is_waited_for = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_waited_for.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def what_is_known_of(lease: Lease) -> tuple[object, ...]:
    return lease.state, lease.reason, lease.deadline, lease.due


def interleaved(lease: Lease, verb: str, line: int, other: str, mutex: Mutex) -> bool:
    """Run a verb, and the other one in another thread before its line of that number.

    Return False if it has fewer lines.
    """
    ended = threading.Event()

    def compete() -> None:
        CHANGES[other](lease)
        ended.set()

    rival = threading.Thread(target=compete, daemon=True)
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != leases.__file__:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                rival.start()
                while not (ended.is_set() or mutex.is_waited_for.wait(0.001)):
                    pass
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        CHANGES[verb](lease)
    finally:
        sys.settrace(before)
    if seen >= line:
        rival.join()
    return seen >= line


@pytest.mark.parametrize("other", [*SHARED, "renew"])
@pytest.mark.parametrize("verb", [*SHARED, "renew"])
def test_two_threads_come_to_what_one_after_the_other_would(
    verb: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever line of one verb the other verb comes before."""
    monkeypatch.setattr(leases, "monotonic", lambda: 0.0)
    for state, way in WAYS.items():
        if state is State.ASKING:
            continue  # it is one thread's alone
        one_after_the_other = [
            what_is_known_of(lease_that(*way, *pair)) for pair in ((verb, other), (other, verb))
        ]
        for line in count(1):
            lease, mutex = lease_that(*way), Mutex()
            monkeypatch.setattr(leases, "_mutex", mutex)
            if not interleaved(lease, verb, line, other, mutex):
                break
            assert what_is_known_of(lease) in one_after_the_other, (
                f"{other} before line {line} of {verb}, of a lease {state.value}"
            )
        assert line > 2


class Renews(NobodyRenews):
    """Knows what is to be renewed, and lets something happen when that begins."""

    def __init__(self, on_add: Callable[[Lease], object]) -> None:
        self._on_add = on_add
        self.leases: list[Lease] = []

    def add(self, lease: Lease) -> None:
        self._on_add(lease)
        self.leases.append(lease)

    def discard(self, lease: Lease) -> None:
        self.leases = [each for each in self.leases if each is not lease]


def resumed(on_add: Callable[[Lease], object]) -> tuple[Lease, Renews, Held]:
    """A lease that has ended and goes on, and what renews it and where it is found."""
    session = new_session()
    lease = lease_that("win", "leave", session=session)
    renews = lease.renewer = Renews(on_add)
    lease.resume(HOLD)
    return lease, renews, session.held


def test_what_resumes_goes_on_before_anybody_renews_it() -> None:
    states: list[State] = []
    lease, renews, held = resumed(lambda lease: states.append(lease.state))
    assert [State.HELD] == states
    assert ([lease], [lease]) == (renews.leases, list(held.open))


def test_what_is_left_again_as_it_resumes_is_neither_renewed_nor_found() -> None:
    lease, renews, held = resumed(lambda lease: lease.leave(HOLD))
    assert State.ENDED is lease.state
    assert ([], [], {}) == (renews.leases, list(held.open), dict(held))


def test_no_hold_joins_a_lease_that_the_last_one_has_left() -> None:
    lease = lease_that("win", "leave")
    assert not lease.join(object(), BY_HAND)
    assert not lease.is_open


def test_a_lease_whose_deadline_has_passed_is_lost_for_that_reason() -> None:
    lease = lease_that("win")
    assert not lease.is_over()
    lease.renew(0.0)
    assert lease.is_over()
    assert (State.LOST, LEASE_ENDED) == (lease.state, lease.reason)


def test_however_long_it_is_to_last_it_is_renewed_after_a_third_of_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lease = lease_that("win")
    monkeypatch.setattr(leases, "monotonic", lambda: FAR - 3600)
    lease.renew(FAR)
    assert (FAR, FAR - 3600 + 3) == (lease.deadline, lease.due)


def test_an_extension_leaves_the_next_renewal_where_it_is() -> None:
    lease = lease_that("win")
    due = lease.due
    lease.extend(FAR + 100)
    assert (FAR + 100, due) == (lease.deadline, lease.due)
    lease.extend(FAR)
    assert (FAR + 100, due) == (lease.deadline, lease.due), "nor does it make it end sooner"


def test_the_first_reason_for_a_loss_counts() -> None:
    lease = lease_that("win", "lose")
    lease.lose(LEASE_ENDED)
    assert NOT_KNOWN == lease.reason
