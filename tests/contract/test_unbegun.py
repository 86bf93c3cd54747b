"""The hold that is made in the shortest way is the one that the constructors make."""

from __future__ import annotations

import pytest

from redis_locks import Hold, Lock
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
