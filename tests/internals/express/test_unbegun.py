"""What is made in the shortest way is what the constructors make."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from redis_locks import Hold, Lock, express
from redis_locks.attempts import Attempt
from redis_locks.drivers.base import run_blocking
from redis_locks.leases import Lease
from redis_locks.sides import Side
from redis_locks.store import Request
from redis_locks.tenure import Tenure


@pytest.mark.parametrize("renews", [True, False])
@pytest.mark.parametrize("replicas", [0, 1])
def test_an_unbegun_hold_has_what_its_constructors_set(
    redis_locks: object, renews: bool, replicas: int
) -> None:
    lock = Lock("a", "b")
    side = Side.blocking(None)
    request = Request((b"index", b"a", b"b"), "t.1", 1000, "exclusive", "who", replicas=replicas)
    hold = lock._unbegun(side, request, side.renewer, renew=renews)
    lease = Lease(request, 0.0, 0, name="a, b", renews=renews)
    lease.ended = True
    made = Hold(side.backend, Tenure(lease, side.renewer))
    for its, known in ((made._lease, hold._lease), (made._tenure, hold._tenure)):
        for name in vars(its).keys() - {"lease", "due", "since"}:  # these two when it begins
            assert getattr(its, name) == getattr(known, name), name
    for name in ("_backend", "_pid", "_released", "kept", "read"):
        assert getattr(made, name) == getattr(hold, name), name
    assert vars(hold._lease).keys() <= vars(lease).keys()
    assert isinstance(hold, Hold)


def test_a_request_and_a_side_have_all_their_fields(redis_locks: object) -> None:
    lock = Lock("a", label="label", read=[("GET", "k")])
    side = Side.blocking(None)
    plan = lock._planned(side)
    assert plan is not None
    request = lock._request(side, plan)
    assert request == replace(request)
    assert [] == [each.name for each in fields(Side) if not hasattr(side, each.name)]


@pytest.mark.parametrize("wait", [None, 0, 0.0001, 5])
@pytest.mark.parametrize("patience", [None, 1.0])
def test_an_attempt_has_what_its_constructor_sets(
    redis_locks: object,
    monkeypatch: pytest.MonkeyPatch,
    wait: float | None,
    patience: float | None,
) -> None:
    made: list[Any] = []

    class Known(Attempt):
        def __new__(cls, *_: Any) -> Known:  # noqa: PYI034
            its = super().__new__(cls)
            made.append(its)
            return its

    side = Side.blocking(None)
    prompt = side.backend.prompt
    assert prompt is not None
    prompt.checkin(run_blocking(prompt.checkout()))
    lock = Lock("a")
    plan = lock._planned(side)
    assert plan is not None
    request = lock._request(side, plan)
    monkeypatch.setattr(express, "Attempt", Known)
    won = express.acquire(prompt, request, wait, patience, lambda: None)
    assert isinstance(won, tuple)
    (quick,) = made
    plain = Attempt(prompt, request, wait, patience)
    clocks = {"started", "suspicious_at", "long_at"}
    assert vars(plain).keys() <= vars(quick).keys()
    assert {name: its for name, its in vars(plain).items() if name not in clocks} == {
        name: getattr(quick, name) for name in vars(plain).keys() - clocks
    }
    assert (patience is None) == (quick.suspicious_at > quick.started + 60)
    express.release(prompt, Lease(request, won[1], won[0]), lambda: None)
