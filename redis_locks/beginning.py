"""How a hold begins: what was won is renewed from then on, told, and found by who takes it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from redis_locks import identity, observing, replication, scripts, waiting
from redis_locks.attempts import Won
from redis_locks.drivers.base import Driver
from redis_locks.holds import Hold
from redis_locks.identity import note_unconfirmed, session
from redis_locks.leases import Lease, tell_acquired
from redis_locks.lines import Line
from redis_locks.reads import checked
from redis_locks.renewal.base import Renewer
from redis_locks.sides import Side
from redis_locks.store import Request
from redis_locks.tenure import Tenure

_new: Any = object.__new__


class Beginnable:
    """What a `Lock` describes, as far as its holds begin with it."""

    _name: str
    _shown_mode: str | None = None
    """What people call its mode, if that is not what scripts call it."""
    _hold_type: type[Hold] = Hold
    """Without a constructor of its own: see `_unbegun`."""

    async def _holding(
        self,
        side: Side,
        request: Request,
        won: Won,
        wait: float | None,
        line: Line | None = None,
        before: Lease | None = None,
        *,
        renew: bool,
    ) -> Hold:
        """Return the hold of what was won; interrupted, it takes that back."""
        driver, renewer = side.driver, side.renewer
        hold: Hold | None = None
        try:
            if request.replicas:
                renewer = side.backend.patient(driver)
                lease = Lease(request, won.deadline, won.fencing_token, name=self._name)
                read = await replication.confirm(driver, lease, won.read)
                won = won._replace(deadline=lease.deadline, read=read, since=lease.since)
            hold = self._unbegun(side, request, renewer, renew=renew)
            self._begin(side, hold, won, line, before)
            observer = observing.observer
            if observer is not None and observer.count(
                "acquired", request.names, driver.description, won.waited
            ):
                await tell_begun(side, hold, wait, won.waited)
        except BaseException:
            await take_back(driver, request, hold, line, before)
            raise
        return hold

    def _unbegun(self, side: Side, request: Request, renewer: Renewer, *, renew: bool) -> Hold:
        """Return the hold of what may be won yet. Until it begins, nobody must ask whether it is over."""
        # As the constructors of all three make it: to call those takes three times as long.
        lease: Lease = _new(Lease)
        lease.request = request
        lease.name = self._name
        lease.keys = request.keys
        lease.token = request.token
        lease.lease_ms = request.lease_ms
        lease.mode = self._shown_mode or request.mode
        if request.replicas:
            lease.script = scripts.CONFIRM
        lease.renews = renew
        lease.untold = [True]
        lease.ended = True  # so that nobody misses it if it never begins
        tenure: Tenure = _new(Tenure)
        tenure.lease = lease
        tenure.renewer = renewer
        hold: Hold = _new(self._hold_type)
        hold._backend = side.backend  # noqa: SLF001 - one package
        hold._pid = identity.process.pid  # noqa: SLF001
        hold._tenure = tenure  # noqa: SLF001
        hold._released = hold.kept = False  # noqa: SLF001
        hold.read = ()
        return hold

    def _begin(
        self,
        side: Side,
        hold: Hold,
        won: Won,
        line: Line | None = None,
        before: Lease | None = None,
    ) -> None:
        """Let the hold of what was won begin; it is not told yet. Interrupted, it does not."""
        fencing_token, deadline, read, waited, since = won
        tenure = hold._tenure  # noqa: SLF001 - one package
        held, renewer = tenure.lease, tenure.renewer
        held.fencing_token = fencing_token
        seconds = held.lease_ms / 1000
        held.since = deadline - seconds if since is None else since
        held.deadline = deadline  # as `renewed_until`
        held.due = deadline - seconds * 2 / 3 if held.renews else deadline
        try:
            hold.read = checked(read) if read else read
            if waited:
                held.awaited = True
            if line is not None:
                held.line = line
            if before is not None:
                held.takes_over(before.token)
            held.ended = False
            renewer.add(held)
            if not held.renews and before is None:
                note_unconfirmed(held.token)  # it ends by itself: no dead end for whoever waits
            whose = side.session
            if waited or line is not None or whose.call is not None:
                # Whoever was told of contention may have had asgiref change whose call this is.
                whose = session(task=side.task)
            tenure.begin(hold, whose.held, side.backend)
        except BaseException:
            _drop(held, renewer)
            raise


def _drop(held: Lease, renewer: Renewer) -> None:
    """Forget a hold that nobody was told of."""
    held.ended = True
    renewer.discard(held)


async def tell_begun(side: Side, hold: Hold, wait: float | None, waited: float) -> None:
    """Tell that `hold` has begun. Takes as long as those who listen."""
    tenure = hold._tenure  # noqa: SLF001 - one package
    await tell_acquired(side.driver, tenure.lease, wait=wait, waited=waited)
    # Whoever listened may have had asgiref change whose call this is.
    tenure.find_in(session(task=side.task).held)


async def take_back(
    driver: Driver,
    request: Request,
    hold: Hold | None,
    line: Line | None = None,
    before: Lease | None = None,
) -> None:
    """Give up what was won, or had passed to us from `before`, and the `hold` of it, if there is one; it need not have begun."""
    if hold is not None:
        tenure = hold._tenure  # noqa: SLF001 - one package
        if not tenure.leave(hold):
            tenure.lease.lost = True  # for who was told, and took it again
        _drop(tenure.lease, tenure.renewer)
    if line is not None:
        line.end(request.token)
    try:
        if before is not None:
            # First: Redis may be learning this moment that the hold is ours.
            await waiting.take_back(driver, replace(request, token=before.token))
    finally:
        await waiting.take_back(driver, request)
