"""The lease of a hold: a state machine on this process's monotonic clock, and how its end is told.

A `Lease` is what one thread or task has of a set of locks. Nested holds share it: it ends when the
last of them leaves. A renewer extends it in the background. Its state changes by these verbs only,
as `AFTER` says:

    ======  ====  =====  =====  ======
    state   win   lose   leave  resume
    ======  ====  =====  =====  ======
    asking  held  =      ended  =
    held    =     lost   ended  =
    lost    =     =      =      =
    ended   =     lost   =      held
    ======  ====  =====  =====  ======

asking: it may wait for the locks. held: the server gave us the locks. lost: the hold is gone
although nobody released it; `Lease.reason` says why. ended: it was released or given away, or that
was tried. "=": the state stays. `leave` is that of the last hold that is open. Any thread may call
any verb at any time. Each takes effect as a whole, under the mutex. So the table decides what two
of them come to.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import Enum
from math import inf
from time import monotonic
from types import FrameType
from typing import Any, Final, Literal, Protocol, TypeVar
from weakref import ref

from redis_locks.drivers.base import Call, Driver, Link, LinkBroken
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.time_limits import in_time
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol import lock_events, silent_questions, store
from redis_locks.protocol.acquire import LockWait
from redis_locks.protocol.callers import RUNS_CALL, Held, Session, note_unconfirmed
from redis_locks.protocol.callers import session as current_session
from redis_locks.protocol.plans import Plan
from redis_locks.protocol.silent_questions import NOTHING_HEARD, Heard, Reader, Silence
from redis_locks.protocol.store import Refused, Request, Won
from redis_locks.scripts import Script
from redis_locks.values import modes
from redis_locks.values.identity import caller
from redis_locks.values.keys import Keys

YOUNG: Final = 0.05
"""Seconds for which nobody asks who holds. So long what Redis says of a hold may be out of date."""

LEASE_ENDED: Final = "its lease ended"
NOT_KNOWN: Final = "Redis does not know our hold any more"
FORCE_RELEASED: Final = "an operator force-released it"


class State(Enum):
    """What has become of a lease; see the table above."""

    ASKING = "asking"
    HELD = "held"
    LOST = "lost"
    ENDED = "ended"

    __hash__ = object.__hash__  # that of Enum takes a call of its own


ASKING, HELD, LOST, ENDED = State  # a look-up in an Enum takes long

_STAYS: Final = {state: state for state in State}

AFTER: Final[dict[str, dict[State, State]]] = {
    "win": _STAYS | {ASKING: HELD},
    "lose": _STAYS | {HELD: LOST, ENDED: LOST},
    "leave": _STAYS | {ASKING: ENDED, HELD: ENDED},
    "resume": _STAYS | {ENDED: HELD},
}
"""The state after each verb, by the state before: the table above."""


class Answer(Enum):
    """What came of the first question to end a lease."""

    YES = "it has ended"
    NO = "it has not, or nobody could be asked at once"
    UNHEARD = "asked, without an answer"


YES, NO, UNHEARD = Answer  # a look-up in an Enum takes long


class Outage(Enum):
    """What a lease went without, as its server could not be asked."""

    UNHEARD = "its last renewal"
    UNVERIFIED = "the question before a COMMIT"
    UNGUARDED = "the lock"


UNGUARDED: Final = Outage.UNGUARDED  # a look-up in an Enum takes long


Runner = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs what blocks where it does not matter."""


class Renewer(Protocol):
    """What extends leases in the background, or at least watches them end."""

    def add(self, lease: Lease) -> None:
        """Renew `lease`, or watch it end, until it is discarded, lost or garbage."""

    @property
    def discard(self) -> Callable[[Lease], object]:
        """Stops renewing a lease."""

    def revoke(self, token: str) -> None:
        """Note that an operator ended the hold of `token`, if it is one of this process."""

    @property
    def heartbeat(self) -> Liveness | None:
        """Whether the event loop that has the leases still turns; None: threads have them."""

    async def listening(self, run: Runner | None = None) -> AbstractContextManager[object]:
        """Listen from now on, until all that was added in the returned block has ended.

        Connects by `run`, if given.

        Raises:
            LockBackendError: The server cannot be reached.
            ValueError: It is a cluster.
        """


class Liveness(Protocol):
    """Whether an event loop still turns; see `renewal`."""

    def has_stopped(self, lease: Lease) -> bool:
        """Whether the loop has stood still for too long for this hold of its to be renewed."""

    def tell_lost(self, lease: Lease) -> bool:
        """Tell in the loop that a hold is lost; False if the loop is closed."""


H = TypeVar("H", bound=Reader)


class EnteredBlock(Protocol):
    """A block."""

    frame: FrameType | None
    """What has entered it."""


Where = ref[EnteredBlock] | object
"""What code finds a hold, to be nested in it: what runs under a block's frame; what a stack of
blocks is around; all of a party; or, by `BY_HAND`, none. See `Held`.
"""

BY_HAND: Final = None
"""No code finds the hold: nothing shows what runs under it."""

_NO_HOLDS: Final[dict[int, Where]] = {}
_NOBODY: Final = Held(None)


class Conversion:
    """What is known of a lease that is turned into another mode, or was."""

    __slots__ = ("ended", "is_settled", "mode", "releases", "token")

    def __init__(self) -> None:
        self.mode: str | None = None
        """The mode that it has now; None: that in which it was asked for."""
        self.token: str | None = None
        """The token that it will have, while it is being upgraded."""
        self.ended = -inf
        """When it was last upgraded; inf while it is. Until then "not held" may mean what it says.
        """
        self.is_settled = True
        """Whether Redis is known to hold it in its mode."""
        self.releases = False
        """Whether the upgrade releases it."""


_NONE: Final = Conversion()
"""That of the leases that were never turned into another mode: it never changes."""


class Question:
    """The first question of an acquire, and how far it has come."""

    link: Link | None = None
    """The link that it has; None: none, or no longer."""
    sent = 0.0
    """When it was sent; 0: it was not."""
    reply: Any = None
    """What came: the reply, or the error or silence in place of one."""
    answer: Awaitable[Any] | None = None
    """What to await for the reply."""
    error: BaseException | None = None
    """What broke it off."""
    is_won = False
    """Whether the reply has granted the locks."""
    tells_contention = False
    """Whether a receiver is to be told that somebody else had them."""

    @property
    def first(self) -> tuple[Any, float] | None:
        """What a `LockWait` goes on from."""
        return (self.reply, self.sent) if self.sent else None


class Lease:
    """What one thread or task asks of a set of locks, and has of it; nested holds share it.

    Args:
        plan: What is asked for.
        session: Who asks.
        renewer: What renews it.
        token: What proves it; None: a new one.
        renews: Whether it is renewed, else it ends at its deadline; None: as the terms say.
    """

    # What nearly all leases have in common is set on the class, if it is seldom looked at.

    reason = ""
    """Why it is lost."""
    fencing_token = 0
    since = 0.0
    """When it began."""
    deadline = 0.0
    """When it ends."""
    due = 0.0
    """When to renew it, or to look at it, next."""
    waited = 0.0
    """Seconds for which it was waited for."""
    commands: store.Commands | None = None
    """The commands that were sent with its end, if it ends by a commit."""
    on_lost: Callable[[], None] | None = None
    """Called once, by the thread or task that renews or hears, when that finds it lost."""
    _conversion = _NONE
    """What is known of its change into another mode."""
    place = ""
    """The line of code that acquired it by hand."""
    _request: Request | None = None

    def __init__(
        self,
        plan: Plan,
        session: Session,
        renewer: Renewer,
        token: str | None = None,
        renews: bool | None = None,  # noqa: FBT001 - by place, which is faster
    ) -> None:
        terms = plan.terms
        self.plan = plan
        self.session = session
        self.renewer = renewer
        # Chosen before the first byte is sent, so that it can be taken back.
        self.token = token or f"{session.name}.{next(session.counter)}"
        self.renews = terms.renews if renews is None else renews
        self.guarded = terms.guarded
        """The databases before whose COMMIT it is verified; None: all. See `Scope`."""
        self.untold = [True]
        """Empty once somebody was told how the hold ended; see `tell_end`."""
        self.state = ASKING
        self.outage: Outage | None = None
        """What it went without, as its server could not be asked."""
        self._open = _NO_HOLDS
        """The identities of its open holds, and what code finds each of them."""
        self._held = _NOBODY
        """Where acquires of its thread or task find it."""
        self._covers = False
        """Whether an earlier lease is to be found again, in its place, when it ends."""

    # What it is of

    @property
    def name(self) -> str:
        """The name of its locks, for people."""
        return self.plan.name

    @property
    def mode(self) -> str:
        """How its locks are held: "exclusive", "shared", "permit:CAPACITY" or the mode of a row."""
        terms = self.plan.terms
        return self._conversion.mode or terms.shown_mode or terms.mode

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its locks."""
        return self.plan.names

    @property
    def keys(self) -> Keys:
        """KEYS of the scripts."""
        return self.plan.keys

    @property
    def lease_ms(self) -> int:
        """How long it lasts unless it is renewed."""
        return self.plan.terms.lease_ms

    @property
    def max_hold(self) -> float | None:
        """Seconds for which it is renewed while its event loop stands still.

        None: as its renewer says.
        """
        return self.plan.terms.max_hold

    @property
    def replicas(self) -> int:
        """How many replicas have to know of it, and of each extend."""
        return self.plan.terms.replicas

    @property
    def script(self) -> Script:
        """What extends it: takes the arguments of `extend.lua` and replies as it does."""
        return self.plan.terms.script

    @property
    def server(self) -> Any:
        """A reference to the backend of its locks."""
        return self.plan.terms.backend

    @property
    def request(self) -> Request:
        """What asks for it off the usual way."""
        found = self._request
        if found is None:
            found = self._request = self.plan.request(self.token, self.session.unit)
        return found

    def ask_by(self, request: Request) -> Request:
        """Have another request, with the same token, ask for it from now on; return that."""
        self._request = request
        return request

    @property
    def intents(self) -> frozenset[str]:
        """The names of the locks of which it has the intent only."""
        plan = self.plan
        return frozenset(plan.names[: modes.intents_in(plan.terms.mode)])

    # How it is acquired

    def ask(
        self,
        driver: Driver,
        wait: float | None,
        hold: H,
        where: Where,
        own: str = "",
        ends: float = inf,
    ) -> H | Coroutine[Any, Any, H | Refused]:
        """Ask for the locks, and wait for up to `wait` seconds (0: not at all; None: for ever).

        Then `hold` has them. Acquires find it if they are made by code that runs in `where`. `own`
        and `ends` are as for `LockWait`.

        Returns the hold, as it does the usual way: the locks are free, and one question to one
        server is enough. Else what to await for the hold, or for why another holder still had the
        locks at the end. Whatever interrupts it takes back what was asked for. To await raises as
        `LockWait.run`.
        """
        plan = self.plan
        question = Question()
        try:
            question.link = link = driver.take(self.token) if plan.terms.is_plain else None
            if link is not None and ends == inf:
                if link.quick_keys is None or not self._asks_silently(
                    driver, link, wait, hold, question
                ):
                    packet = plan.question(link, self.token, self.session.unit, wait)
                    if not plan.reads:
                        question.sent = monotonic()
                        question.reply = link.exchange(packet)
                    elif (bulk := link.open_bulk) is not None:
                        question.sent, packet = monotonic(), packet + plan.read_packet
                        question.reply = bulk.exchange_all(packet, 1 + len(plan.reads))
                        link = bulk
                if question.reply is None:
                    question.answer = link.answer() if question.sent else None
                elif not question.tells_contention and self._heard(driver, question, hold, where):
                    return hold
        except BaseException as error:  # noqa: BLE001 - what is awaited raises it
            question.error = error
        return self._go_on(driver, wait, hold, where, question, own, ends)

    def _asks_silently(
        self, driver: Driver, link: Link, wait: float | None, hold: H, question: Question
    ) -> bool:
        """Ask so that the grant itself is the answer, or return False; see `silent_questions`.

        Contention is counted after that.
        """
        plan = self.plan
        if not silent_questions.fits(driver, link, plan, wait):
            return False
        question.sent, question.reply = monotonic(), NOTHING_HEARD
        question.reply = heard = silent_questions.ask(
            plan, driver, link, self.token, self.session.unit, wait, hold
        )
        if heard.contended and lock_events.observer.count_hold("contended", 0.0, self):
            question.tells_contention = True
            link.quick_keys = None  # a receiver is there now: the next reply names the holder
        return True

    def _heard(self, driver: Driver, question: Question, hold: H, where: Where) -> bool:
        """Let `hold` have the locks if the reply grants them; return whether that is all to do."""
        reply = question.reply
        read: Sequence[Any] = ()
        since, waited = None, 0.0
        if type(reply) is list and reply:  # an empty one answers nothing: a `LockWait` says so
            reply, *read = reply
            question.reply = reply
        if type(reply) is Heard:
            won, since, waited = reply
        else:
            won = store.won(reply, self.token) if type(reply) is bytes else 0
        if not won:
            return False
        if read:
            hold.read = store.read_replies(read)
        question.is_won = True
        # First: what is given back is no longer ours to give back, whatever interrupts.
        link, question.link = question.link, None
        if link is not None:
            driver.checkin(link, self.token)
        self.win(question.sent + self.plan.terms.lease, won, since, waited)
        self.begin(hold, where)
        return not lock_events.observer.count_hold("acquired", self.waited, self)

    async def _go_on(
        self,
        driver: Driver,
        wait: float | None,
        hold: H,
        where: Where,
        question: Question,
        own: str,
        ends: float,
    ) -> H | Refused:
        """Go on after the first question, or ask it off the usual way; see `ask`."""
        waiter: LockWait | None = None
        outcome: H | Refused = hold
        try:
            if question.answer is not None and question.error is None:
                try:
                    question.reply = await question.answer
                except LinkBroken as error:
                    question.reply = error
            elif not question.is_won or question.error is not None:
                await self._ask_otherwise(driver, wait, question, ends)
            if question.tells_contention:
                await self._tell_contention(driver, wait, question)
            is_told = not question.is_won and self._heard(driver, question, hold, where)
            if not question.is_won:
                waiter = LockWait(
                    *(driver, self.asked(driver), wait, self.plan.terms.patience),
                    own=own,
                    link=question.link,
                    first=question.first,
                    ends=ends,
                )
                question.reply = None  # no circle: an error has the frames of its caller
                outcome = await self._wait(waiter, hold, where)
                is_told = outcome is not hold or not lock_events.observer.count_hold(
                    "acquired", self.waited, self
                )
            if not is_told:
                await self.tell_acquired(driver, wait)
        except BaseException as error:
            await self._give_up(hold, waiter or self._asked_on(driver, question, error))
            raise
        return outcome

    async def _tell_contention(
        self, driver: Driver, wait: float | None, question: Question
    ) -> None:
        """Tell that somebody else had the locks, before the lease begins."""
        await lock_events.tell(driver, "contended", self.request, wait=wait)
        if question.sent + self.plan.terms.lease <= monotonic():
            # Receivers took longer than the lease, which nobody has renewed: a `LockWait` asks
            # again.
            question.reply = Silence(contended=True)

    def _asked_on(self, driver: Driver, question: Question, error: BaseException) -> LockWait:
        """Return what takes back the first question, if it was sent, which `error` broke off."""
        first = question.first
        if first is not None:
            self.request.break_off(error)
        return LockWait(driver, self.request, 0, link=question.link, first=first)

    async def _ask_otherwise(
        self, driver: Driver, wait: float | None, question: Question, ends: float
    ) -> None:
        """Ask as the usual way does, until `ends` at the latest; or not at all.

        Raises what broke the question off.
        """
        link, plan = question.link, self.plan
        try:
            if question.error is not None:
                raise question.error
            if link is None or question.sent:
                return
            asked = link.open_bulk if plan.reads else link
            if asked is not None and ends != inf:
                packet = plan.question(link, self.token, self.session.unit, wait) + plan.read_packet
                question.sent = monotonic()
                trip = asked.round_trip(packet, 1 + len(plan.reads))
                question.reply = await in_time(driver, trip, ends, ends)
        except LinkBroken as error:
            question.reply = error
        finally:
            question.error = None  # as above

    async def _wait(self, waiter: LockWait, hold: H, where: Where) -> H | Refused:
        """Let `hold` have what `waiter` gets, and return it; or return why it got nothing."""
        listens = self.plan.terms.crash_release
        with await self._listening(waiter) if listens else nullcontext():
            outcome = await waiter.run()
            if isinstance(outcome, Refused):
                self.leave(hold)
                return outcome
            read = await self.granted(waiter.driver, outcome)
            if read:
                hold.read = store.read_replies(read)
            self.begin(hold, where)
        return hold

    async def _listening(self, waiter: LockWait) -> AbstractContextManager[object]:
        """Listen, in the time of the call; see `Renewer`."""
        try:
            return await waiter.in_time(self.renewer.listening())
        except LinkBroken as error:
            raise LockBackendError(str(error)) from error

    async def have(self, driver: Driver, won: Won, hold: object, where: Where) -> None:
        """Have what another question has won for the token; see `acquire`."""
        try:
            await self.granted(driver, won)
            self.begin(hold, where)
            if lock_events.observer.count_hold("acquired", self.waited, self):
                await self.tell_acquired(driver, 0)
        except BaseException:
            await self._give_up(hold, LockWait(driver, self.request, 0, first=(None, 0.0)))
            raise

    def asked(self, driver: Driver) -> Request:  # noqa: ARG002 - for subclasses
        """Return what is asked for off the usual way."""
        return self.request

    async def confirmed(
        self,
        driver: Driver,  # noqa: ARG002 - for subclasses
        read: Sequence[Any],
    ) -> Sequence[Any]:
        """Return the replies to the plan's reads, once the grant counts."""
        return read

    async def granted(self, driver: Driver, won: Won) -> Sequence[Any]:
        """Have what was granted off the usual way; return the replies to the plan's reads."""
        self.win(won.deadline, won.fencing_token, won.since, won.waited)
        return await self.confirmed(driver, won.read)

    async def _give_up(self, hold: object, waiter: LockWait) -> None:
        """Give up what was asked for, or won."""
        if not self.leave(hold):
            # A receiver that was told has taken it again.
            self.lose("its acquire was interrupted")
        await waiter.give_up()

    async def tell_acquired(self, driver: Driver, wait: float | None) -> None:
        """Tell that a hold began.

        Tell that it ended, too, if the caller is interrupted and so gives it back.
        """
        try:
            await tell(driver, "acquired", self, wait=wait, waited=self.waited)
        except BaseException:
            await driver.finish(tell_end(driver, self))
            raise
        if self.plan.places:
            # A receiver may have had asgiref change whose call this is.
            self.move_to(current_session().held)

    # How it is released

    def ask_to_end(self, driver: Driver) -> Answer | LockBackendError | Link:
        """Ask once to end it; return the answer, or the link on which it is to come.

        A refusal is an answer. See `answer_to_end`.
        """
        link = driver.take()
        if link is None:
            return NO
        try:
            reply = link.exchange(self.plan.end(self.token))
        except LinkBroken as error:
            return self._without_end(driver, link, error)
        if reply is None:
            return link
        if reply == f"{self.token} 1".encode():
            driver.checkin(link)
            return YES
        return self._without_end(driver, link, reply)

    async def answer_to_end(self, driver: Driver, link: Link) -> Answer | LockBackendError:
        """Wait for the answer to `ask_to_end`."""
        try:
            reply = await link.answer()
        except LinkBroken as error:
            reply = error
        if reply == f"{self.token} 1".encode():
            driver.checkin(link)
            return YES
        return self._without_end(driver, link, reply)

    def _without_end(self, driver: Driver, link: Link, reply: object) -> Answer | LockBackendError:
        """Give the link back, and return what `reply` says that is not that the lease has ended.

        `reply` may be an error.
        """
        answer: Answer | LockBackendError = UNHEARD
        if type(reply) is ErrorReply:
            refusal = link.refusal(reply)
            answer = refusal if isinstance(refusal, LockBackendError) else NO
        elif reply == f"{self.token} 0".encode():
            answer = NO
        elif isinstance(reply, LinkBroken):
            driver.drop_idle()
        else:
            link.disconnect()  # out of step
        driver.checkin(link)
        return answer

    # The holds that share it, and where they find it

    def begin(self, hold: object, where: Where = BY_HAND) -> None:
        """Add the first hold and have the lease renewed.

        Acquires of its thread or task find it, from code that runs in `where`.
        """
        self._open = self._open or {id(hold): where}
        self.renewer.add(self)
        if not self.renews:
            note_unconfirmed(self.token)  # it ends by itself: no dead end for a waiter
        if where is BY_HAND:
            self.place = caller()  # for who waits for it
        asker = self.session
        if self.waited or asker.call is not None:
            # A receiver that was told of contention may have had asgiref change whose call this is.
            asker = current_session()
        held = asker.held
        if lock_events.watch is not None and self._held is _NOBODY:  # it is new
            lock_events.watch(self, held, self.server)
        self._held = held
        self._be_found(held)

    def begin_unfound(self, hold: object, held: Held | None = None, where: Where = BY_HAND) -> None:
        """Add the first hold and have the lease renewed.

        The thread or task of `held` has it, though none of its acquires is to find it.
        """
        self._open = self._open or {id(hold): where}
        self.renewer.add(self)
        if not self.renews:
            note_unconfirmed(self.token)  # it ends by itself: no dead end for a waiter
        if held is not None:
            self._held = held
            held.open[self] = None

    def move_to(self, held: Held) -> None:
        """Let acquires of the thread or task that has `held` find it, and no others."""
        if held is not self._held:
            self.forget(self._held)
            self._held = held
            self._be_found(held)

    def _be_found(self, held: Held) -> None:
        """Be found in `held`."""
        held.open[self] = None
        for place in self.plan.places:
            if place in held:
                self._covers = True
            held[place] = self

    def forget(self, held: Held) -> None:
        """Be no longer found in `held`."""
        held.open.pop(self, None)
        for place in self.plan.places:
            if held.get(place) is self:
                held.pop(place, None)  # another thread may do the same
                if self._covers:
                    held.uncover(place)

    def has(self, server: object, name: str) -> bool:
        """Whether it has that lock of that server, and is to be found there."""
        return (server, name) in self.plan.places

    def guard(self, databases: frozenset[str] | None) -> None:
        """Have it verified before COMMIT on these databases (None: on all), too."""
        if self.guarded is not None:
            self.guarded = None if databases is None else self.guarded | databases

    def join(self, hold: object, where: Where) -> bool:
        """Add a nested hold; False if the last one has left already, in another thread perhaps."""
        with _mutex:
            if self._open:
                self._open[id(hold)] = where
            return bool(self._open)

    def place_in(self, hold: object, where: Where) -> None:
        """Let code that runs in `where`, and no other, find an open hold from now on."""
        with _mutex:
            if id(hold) in self._open:
                self._open[id(hold)] = where

    def where(self, hold: object) -> Where:
        """Return what code finds a hold."""
        return self._open.get(id(hold), BY_HAND)

    @property
    def is_by_hand(self) -> bool:
        """Whether no code finds it, as all its holds were acquired by hand."""
        return all(where is BY_HAND for where in list(self._open.values()))

    def enter(
        self, hold: object, where: Where, around: Iterable[tuple[Held, Container[FrameType]]]
    ) -> bool:
        """Let a block have an open hold; `BY_HAND`: leave it where it is found.

        False if a block has it already, or if a block has another hold of the lease, and this code
        does not run there. `around` has the parties around this code, and the frames by which each
        led to it.
        """
        with _mutex:
            before = self._open.get(id(hold), BY_HAND)
            if (isinstance(before, ref) and before() is not None) or not all(
                other is BY_HAND or any(self._is_inside(other, *each) for each in around)
                for other in self._open.values()
            ):
                return False
            if where is not BY_HAND:
                self.place_in(hold, where)
            return True

    def is_around(self, held: Held, frames: Container[FrameType]) -> bool:
        """Whether code that has run in `frames` runs inside a block of it.

        The code is of the thread or task that has `held`.
        """
        return any(self._is_inside(where, held, frames) for where in list(self._open.values()))

    @staticmethod
    def _is_inside(where: Where, held: Held, frames: Container[FrameType]) -> bool:
        if isinstance(where, ref):
            block = where()
            return block is not None and block.frame in frames
        return where is not BY_HAND and (where is held.stack or where == held.party)

    def leave(self, hold: object) -> bool:
        """Take a hold out, if it is in.

        True if no other is: then the lease ends, and nobody finds or renews it.
        """
        with _mutex:
            self._open.pop(id(hold), None)
            last = not self._open
            if last:
                # A renewal that is under way and finds nothing is no loss from here on.
                self.state = AFTER["leave"][self.state]
        if last:
            self.forget(self._held)
            self.renewer.discard(self)
        return last

    def commit(self, hold: object, commands: store.Commands) -> bool:
        """End the lease with these commands; False if `hold` is not the only one that is open."""
        with _mutex:
            if list(self._open) != [id(hold)]:
                return False
            self.commands = commands
            return self.leave(hold)

    @property
    def is_shared(self) -> bool:
        """Whether several holds are open."""
        return len(self._open) > 1

    @property
    def is_open(self) -> bool:
        """Whether somebody has yet to leave it, though it may be lost."""
        return bool(self._open)

    @property
    def is_held(self) -> bool:
        """Whether its locks are held still."""
        return bool(self._open) and self.state is HELD and not self.is_over()

    # Its states

    def is_over(self) -> bool:
        """Whether it is lost, or runs though its deadline has passed.

        Once true it stays true, whatever arrives later.
        """
        # What was released is not lost: the server may have ended it in time, though nobody heard
        # of that.
        if self.state is HELD and monotonic() >= self.deadline:
            self.lose(LEASE_ENDED)
        return self.state is LOST

    @property
    def is_unguarded(self) -> bool:
        """Whether it stands for a lock that could not be asked for."""
        return self.outage is UNGUARDED

    @property
    def is_lost_in_outage(self) -> bool:
        """Whether it ended as nobody could be asked to renew it, and its block goes on."""
        return self.outage is not None and self.reason == LEASE_ENDED and self.plan.terms.proceeds

    def win(
        self, deadline: float, fencing_token: int, since: float | None = None, waited: float = 0.0
    ) -> None:
        """Note that the locks were granted until `deadline`, after `waited` seconds.

        `since`: when, if not a lease before `deadline`.
        """
        self.fencing_token, self.deadline, self.waited = fencing_token, deadline, waited
        terms = self.plan.terms
        began = deadline - terms.lease
        self.since = began if since is None else since
        self.due = began + terms.third if self.renews else deadline
        self.state = AFTER["win"][self.state]

    def renew(self, deadline: float, known: float = inf) -> None:
        """Note that the lease ends at `deadline`, and when to renew it next.

        `known`: the end known when that was asked.
        """
        with _mutex:  # or it might go on although another thread has just found that it is over
            if self.state is HELD:
                if known < self.deadline:
                    # It was extended meanwhile, perhaps after the answer. The server shortens none.
                    deadline = max(self.deadline, deadline)
                if self.outage is Outage.UNHEARD:
                    self.outage = None
                self.deadline = self.due = deadline
                if self.renews:  # soon, though the server may say it lasts: its clock may be wrong
                    third = self.plan.terms.third
                    self.due = min(deadline - 2 * third, monotonic() + third)

    def extend(self, deadline: float) -> None:
        """Note that the lease ends at `deadline` at the soonest.

        The next renewal comes when it would have come.
        """
        with _mutex:
            due = self.due
            self.renew(max(self.deadline, deadline))
            self.due = due

    def lose(self, reason: str) -> None:
        """Note that it is lost; the first reason counts."""
        with _mutex:
            if AFTER["lose"][self.state] is not self.state:
                self.reason = reason  # first: another thread that sees the state asks why
            self.state = AFTER["lose"][self.state]

    def resume(self, hold: object, where: Where = BY_HAND) -> None:
        """Go on with `hold`, found in `where`, after an end that did not come about.

        If it is lost, the next renewal finds that out.
        """
        with _mutex:
            resumes = self.state is ENDED
            if resumes:
                self._open = {id(hold): where}
                self.state = AFTER["resume"][self.state]
        if resumes and self._held is not _NOBODY:
            self._be_found(self._held)
        self.renewer.add(self)
        if (
            resumes and not self._open
        ):  # another thread has left it again, perhaps before it was added
            self.forget(self._held)
            self.renewer.discard(self)

    # Changes of a hold that goes on

    @property
    def extension(self) -> tuple[Script, Call]:
        """What renews it; for one that is not renewed, what tells whether it is held still."""
        terms = self.plan.terms
        milliseconds = terms.lease_ms if self.renews else 0
        return terms.script, store.extend_call(self.plan.keys, self.token, milliseconds)

    def stop_renewing(self) -> None:
        """Let it end at its deadline."""
        self.renews, self.due = False, self.deadline
        note_unconfirmed(self.token)  # it ends by itself: no dead end for a waiter

    def is_due(self, now: float, early: float) -> bool:
        """Whether it is to be renewed now, or within this part of its length."""
        return self.due <= now + (early * self.lease_ms / 1000 if self.renews else 0)

    def go_unverified(self) -> None:
        """Note that a COMMIT goes on although nobody could be asked about it."""
        self.outage = Outage.UNVERIFIED

    def miss(self) -> None:
        """Note that nobody has answered whether it is renewed; see `postpone`."""
        self.outage = self.outage or Outage.UNHEARD
        self.postpone()

    def postpone(self) -> None:
        """Try the renewal again after a tenth of the lease."""
        self.due = monotonic() + self.lease_ms / 10_000

    def hurry(self) -> None:
        """Let it be due now, to be renewed or looked at."""
        self.due = 0.0

    def raise_fence(self, fencing_token: int) -> None:
        """Note that it got a higher fencing token."""
        self.fencing_token = fencing_token

    def change_mode(self, mode: str, *, settled: bool) -> None:
        """Note that it is held in another mode, under the same token.

        If not `settled`, note that it may be.
        """
        conversion = self._converting()
        conversion.mode, conversion.is_settled = mode, settled

    def begin_upgrade(self, token: str) -> bool:
        """From now on "not held" may mean that `token` holds.

        Return False if an upgrade is under way already.
        """
        with _mutex:
            conversion = self._converting()
            if conversion.token is not None:
                return False
            conversion.token, conversion.ended = token, inf
            return True

    def end_upgrade(self, token: str) -> None:
        """Note that what is asked from now on is asked for the right token.

        Do nothing unless the upgrade to `token` is under way.
        """
        with _mutex:
            conversion = self._conversion
            if conversion.token == token:
                conversion.token, conversion.ended = None, monotonic()

    def end_by_upgrade(self) -> None:
        """Note that an upgrade releases what it got, as the hold was released meanwhile."""
        self._converting().releases = True

    def _converting(self) -> Conversion:
        with _mutex:
            if self._conversion is _NONE:
                self._conversion = Conversion()
            return self._conversion

    @property
    def is_settled(self) -> bool:
        """Whether Redis is known to hold it in its mode.

        If not, it may still be held in the one before.
        """
        return self._conversion.is_settled

    @property
    def ended_by_upgrade(self) -> bool:
        """Whether an upgrade releases it.

        If so, another thread or task had released it before the upgrade was heard of.
        """
        return self._conversion.releases

    @property
    def is_upgrading(self) -> bool:
        """Whether an upgrade is under way."""
        return self._conversion.token is not None

    def other_token(self, tried: Container[str]) -> str | None:
        """Return another token by which Redis may know the hold: it may be upgraded just now."""
        upgrade = self._conversion.token  # first: what it was by then is the token afterwards
        tokens = (self.token, upgrade)
        return next((each for each in tokens if each is not None and each not in tried), None)

    def may_be_upgrading(self, sent: float) -> bool:
        """Whether "not held", asked at `sent`, may be due to an upgrade."""
        return self._conversion.ended >= sent

    def convert(self, request: Request, deadline: float, fencing_token: int, mode: str) -> None:
        """Go on as what was granted to another request, in another mode."""
        self.renewer.discard(self)
        self._request, self.token = request, request.token
        self._converting().mode = mode
        self.fencing_token = fencing_token
        self.renew(deadline)
        self.renewer.add(self)

    def adopt(self, fencing_token: int, deadline: float, *, earlier: float) -> None:
        """Note what it got from another process. It was held for `earlier` seconds before."""
        # It may have been extended for longer than its own lease.
        self.win(deadline, fencing_token, monotonic() - earlier)

    # What is told of its end

    def count_end(self) -> bool:
        """Count its end, unless that was done; return whether somebody wants to be told."""
        try:
            self.untold.pop()  # whole even if two threads come at once
        except IndexError:
            return False
        if self.state is LOST:
            held = min(monotonic(), self.deadline) - self.since
            return lock_events.observer.count_hold("lost", held, self)
        return lock_events.observer.count_hold("released", monotonic() - self.since, self)

    def watch_loss(self, callback: Callable[[], None] | None) -> Callable[[], None] | None:
        """Have `callback` called when it is found lost; return what was called before."""
        before, self.on_lost = self.on_lost, callback
        return before

    def tells_its_end(self, *, tells: bool) -> None:
        """Say whether somebody is to be told of its end.

        Nobody is if nobody was told of its beginning.
        """
        self.untold[:] = [True] if tells else []


class _Stack:
    """The frames that have led to where it is asked.

    If a ``sync_to_async`` call runs here, these are the frames of this call.
    """

    def __contains__(self, frame: object) -> bool:
        # A loop, as the frames may be many.
        above: FrameType | None = sys._getframe(1)
        while above is not None and above.f_code is not RUNS_CALL:
            if above is frame:
                return True
            above = above.f_back
        return False


STACK: Final = _Stack()


def find(
    held: Held,
    server: object,
    names: Iterable[str],
    counts: Callable[[Lease], bool],
    frames: Container[FrameType] = STACK,
) -> set[Lease]:
    """Return a thread's or task's leases, around the code that asks, that have any of these locks.

    For each lock, that is the latest one that `counts`.
    """

    def usable(lease: Lease) -> bool:
        return lease.is_held and lease.is_around(held, frames) and counts(lease)

    found = set()
    for name in names:
        lease = held.get((server, name))
        if lease is not None and not usable(lease):
            beneath = (each for each in reversed(list(held.open)) if each.has(server, name))
            lease = next(filter(usable, beneath), None)
        if lease is not None:
            found.add(lease)
    return found


class CancelledByLoss:
    """Cancels the task in an ``async with`` block when a lease is lost.

    It does so as ``asyncio.timeout`` does when time is up. It lasts from the start of the block to
    its end, in the thread of the event loop. Any thread may find the loss.
    """

    __slots__ = ("_before", "_cancelling", "_ended", "_fired", "_leases", "_task")

    def __init__(self, leases: Sequence[Lease]) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._leases = leases
        self._fired = False
        self._ended = False
        # A nested block's comes first, and then the outer one's again.
        self._before = [lease.watch_loss(self._lost) for lease in leases]

    def _lost(self) -> None:
        lost = [lease for lease in self._leases if lease.state is LOST]
        if self._task is None or all(lease.is_lost_in_outage for lease in lost):
            return
        loop = self._task.get_loop()
        if _running_loop() is loop:
            self._cancel()
            return
        # The thread that renews or hears found it; the loop may sleep.
        with suppress(RuntimeError):  # closed, so nothing runs in it any more
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        # Only here, in the loop's thread: what is counted is what was cancelled before the end.
        if not (self._fired or self._ended) and self._task is not None:
            self._fired = True
            self._task.cancel()

    def end(self) -> bool:
        """Watch no longer; return whether the running task was cancelled: then `take_back` that."""
        self._ended = True
        for lease, before in zip(self._leases, self._before, strict=True):
            lease.watch_loss(before)
        # In another task, it is no business of that one.
        return self._fired and self._task is asyncio.current_task()

    async def take_back(self, error: BaseException | None) -> BaseException | None:
        """Return what the block ended with; None in place of a cancellation that was ours."""
        others = self._task is not None and self._task.uncancel() > self._cancelling
        if not isinstance(error, asyncio.CancelledError):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # ours, which found the block at its end
            return error
        return error if others else None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def tell(driver: Driver, kind: lock_events.Kind, lease: Lease, **details: Any) -> None:
    """Tell what became of a hold; raises no Exception. Takes as long as the receivers do."""
    hold: dict[str, Any] = {
        "mode": lease.mode,
        "fencing_token": lease.fencing_token,
        "since": lease.since,
    }
    await lock_events.tell(driver, kind, lease.request, **hold, **details)


async def tell_moved(driver: Driver, kind: Literal["detached", "adopted"], lease: Lease) -> None:
    """Tell, if somebody listens, that the hold goes on elsewhere, or that it goes on here."""
    if lock_events.observer.count(kind, lease.names, driver.description, 0.0):
        await tell(driver, kind, lease, held=monotonic() - lease.since)


async def tell_end(driver: Driver, lease: Lease) -> None:
    """Tell once, if somebody listens, that the hold was released, or how it was lost."""
    if lease.count_end():
        await tell_counted_end(driver, lease)


async def tell_counted_end(driver: Driver, lease: Lease) -> None:
    """Tell how a hold has ended, which was counted; see `tell_end`."""
    is_lost, until = lease.state is LOST, monotonic()
    held = (min(until, lease.deadline) if is_lost else until) - lease.since
    await tell(driver, "lost" if is_lost else "released", lease, held=held, reason=lease.reason)


# Guards a few instructions; reentrant, for a signal's handler may come in between.
_mutex = threading.RLock()


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603 - another thread of the parent may have had it
    _mutex = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
