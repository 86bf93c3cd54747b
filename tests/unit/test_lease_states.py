"""The states of a lease: every verb in every state does what the table in its module says, and nobody else writes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import redis_locks
from redis_locks.drivers.wake_events import ThreadWakeEvent
from redis_locks.protocol import lease as leases
from redis_locks.protocol.lease import LEASE_ENDED, NOT_KNOWN, Lease, State
from redis_locks.protocol.store import Request
from redis_locks.values.keys import set_keys

FAR: Final = 1e12


class NobodyRenews:
    def add(self, lease: Lease) -> None: ...

    def discard(self, lease: Lease) -> None: ...

    async def listening(self, run: Any = None) -> Any: ...

    heartbeat = None


class NextInLine:
    def __init__(self) -> None:
        self.before: Lease | None = None
        self.wake_event = ThreadWakeEvent()


HOLD = object()


def hand_over(lease: Lease) -> None:
    lease.promise(NextInLine())
    lease.hand_over()


VERBS: dict[str, Callable[[Lease], object]] = {
    "renew": lambda lease: lease.renew(FAR + 1),
    "hand_over": hand_over,
    "lose": lambda lease: lease.lose(NOT_KNOWN),
    "leave": lambda lease: lease.leave(HOLD),
    "resume": lambda lease: lease.resume(HOLD),
}

WAYS: dict[State, list[str]] = {
    State.GRANTED: [],
    State.RENEWED: ["renew"],
    State.HANDED_OVER: ["leave", "hand_over"],
    State.LOST: ["lose"],
    State.ENDED: ["leave"],
}
"""How a lease that was just granted gets into each state."""


def lease_that(*verbs: str) -> Lease:
    request = Request(set_keys("p", 0, ("x",)), "token", 9000, "exclusive", "", names=("x",))
    lease = Lease(request, FAR, 1, NobodyRenews())
    lease.begin(HOLD)
    for verb in verbs:
        VERBS[verb](lease)
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
    words = {state.word: state for state in State}
    return {
        (words[state], verb): words[state if after == "=" else after]
        for state, *afters in cells[1:]
        for verb, after in zip(verbs, afters, strict=True)
    }


def test_the_table_names_every_state_and_verb() -> None:
    assert {(state, verb) for state in State for verb in VERBS} == set(table())


@pytest.mark.parametrize("state", State, ids=lambda state: state.word)
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_leads_from_each_state_to_the_one_in_the_table(state: State, verb: str) -> None:
    lease = lease_that(*WAYS[state])
    assert state is lease.state
    VERBS[verb](lease)
    assert table()[state, verb] is lease.state


def test_a_lease_whose_deadline_has_passed_is_lost_for_that_reason() -> None:
    lease = lease_that()
    assert not lease.is_over()
    lease.renew(0.0)
    assert lease.is_over()
    assert (State.LOST, LEASE_ENDED) == (lease.state, lease.reason)


def test_the_first_reason_for_a_loss_counts() -> None:
    lease = lease_that("lose")
    lease.lose(LEASE_ENDED)
    assert NOT_KNOWN == lease.reason


def test_what_was_handed_over_is_lost_no_more() -> None:
    lease = lease_that(*WAYS[State.HANDED_OVER])
    lease.lose(NOT_KNOWN)
    assert "" == lease.reason


def test_no_field_of_a_lease_is_written_from_outside() -> None:
    """Whoever writes a field of that name writes into an object of its own."""
    home = Path(leases.__file__)
    written = set(vars(lease_that())) | {
        each for each in vars(Lease) if not callable(getattr(Lease, each)) and each[:2] != "__"
    }
    writes = [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for path in Path(redis_locks.__file__).parent.rglob("*.py")
        if path != home
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and node.attr in written
        and "lease" in ast.unparse(node.value)
    ]
    assert [] == writes
