"""`Lock`, the description of a lock, and how it is acquired.

That is in a transaction, nested, by partition, or anew.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from functools import lru_cache
from math import inf
from typing import Any, Final, Generic, Protocol, TypeVar, Unpack

from redis_locks.conf.name_function import NameKind, server_names
from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.conf.validation import OnUnavailable
from redis_locks.connections import backends
from redis_locks.connections.backends import Backend, backend_for
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.exceptions import LockBackendError, LockError, LockNotAvailable
from redis_locks.locks import partitions, unguarded
from redis_locks.locks.contention import not_available
from redis_locks.locks.conversions import give_back
from redis_locks.locks.data_commands import Command
from redis_locks.locks.hold import Hold
from redis_locks.locks.hold_errors import require_closing
from redis_locks.locks.nesting import reenter
from redis_locks.locks.options import LockOptions, Options, options_of
from redis_locks.locks.reads import packed_reads, require_slot
from redis_locks.locks.releases import may_proceed
from redis_locks.locks.scope import Scope
from redis_locks.locks.self_waits import own_hold
from redis_locks.locks.timeouts import bounded
from redis_locks.locks.transactions import Keepers
from redis_locks.locks.with_blocks import (
    Block,
    CalledBlocks,
    async_block_exit,
    block_entered,
    block_exit,
    refuse_in_loop,
    watch_loss,
)
from redis_locks.protocol import replication
from redis_locks.protocol.callers import session
from redis_locks.protocol.lease import BY_HAND, Lease, Renewer, Where
from redis_locks.protocol.plans import Plan, Terms
from redis_locks.protocol.replication import ReplicatedLease
from redis_locks.protocol.retry import at_last, bounds
from redis_locks.protocol.store import Refused
from redis_locks.values.durations import wait_seconds
from redis_locks.values.keys import MOST_KEPT, validate_names
from redis_locks.values.modes import Taken


class Side:
    """The blocking or the asyncio side of a backend, and the thread or task that uses it."""

    __slots__ = (
        *("backend", "block", "driver", "ends"),
        *("renewer", "session", "taken", "wait", "where"),
    )

    wait: float | None
    """For how many seconds it waits; None: for ever."""
    taken: Taken
    """What a transaction keeps, if one keeps it."""

    def __init__(self, using: str | None, block: Block | None = None) -> None:
        """Make the side of threads."""
        self.backend = backend = backends.known.get(using) or backend_for(using)
        self.driver: Driver = backend.driver
        self.renewer: Renewer = backend.renewer
        self.session = here = session()
        """This thread, or the running task, when it began to ask."""
        self.block = block
        """What is to have the hold, from the moment it is made; None: nothing, it is acquired by
        hand.
        """
        self.where: Where = BY_HAND if block is None else block.where or here.held.stack
        """What code is to find the hold."""
        self.ends = inf
        """When an acquire has to end, whatever the server does; see `at_last`."""

    @classmethod
    def of_loop(cls, using: str | None, block: Block | None = None) -> Side:
        """Return the side of the running event loop."""
        side = cls(using, block)
        side.driver, side.renewer = side.backend.of_loop()
        return side


_MOST_READ: Final = 1000
"""How long packed reads may be for a process to remember them."""


def plans_of(terms: Terms, names: tuple[str, ...], reads: tuple[bytes, ...]) -> tuple[Plan, ...]:
    """Return how to ask for locks, in each of their partitions; raises as `require_slot`."""
    is_small = len(names) < MOST_KEPT and sum(map(len, reads)) <= _MOST_READ
    return (_kept_plans if is_small else _plans_of)(terms, names, reads)


def _plans_of(terms: Terms, names: tuple[str, ...], reads: tuple[bytes, ...]) -> tuple[Plan, ...]:
    backend = terms.backend()
    groups = backend.groups(names)
    if reads and backend.in_cluster and len(groups) == 1:
        require_slot(reads, groups[0][1])
    name = joined(names)
    return tuple([Plan(terms, group, keys, name, reads) for group, keys in groups])


def joined(names: tuple[str, ...]) -> str:
    """Return what messages call locks."""
    return names[0] if len(names) == 1 else ", ".join(names)


_kept_plans = lru_cache(maxsize=1024)(_plans_of)


class Lock:
    """A lock, or a set of locks, described: safe at import time, shared by threads and tasks.

    It holds no token; each `acquire`, `with` or `async with` makes a fresh `Hold`.

    Several locks are acquired all at once or not at all: while it waits, the set holds none of
    them. Two sets never deadlock each other, whatever the order of their names. With more than
    one partition (REDIS_LOCKS["PARTITIONS"]), the set is acquired partition by partition.

    Args:
        name: 1 to 512 bytes of UTF-8. Equal names on the same server are the same lock.
        *more: Names of further locks of the set, up to 1000 in all; a repeated name counts once.
        mode: "exclusive": alone. "shared": beside other shared holders, but no exclusive one.
            A waiting exclusive one is not overtaken by shared ones that come later.
        wait: Seconds to wait while somebody else holds it. 0: do not wait. None: for ever.
        lease: Seconds a hold lives unless renewed or extended; 0.01 to one year.
        renew: Whether a hold is renewed in the background while it is held.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.
        label: What the holder runs, for people; None is the command of this process.
        read: Redis commands that only read, such as ``[("HGET", "account:1", "money")]``. They
            travel with the acquire and run once the lock is held; `Hold.read` has the replies.
        scope: "auto": a hold taken inside ``atomic()`` is kept until that transaction ends. A
            rollback to a savepoint (a nested ``atomic()``) that was set before the acquire ends it,
            too. With several databases, it is kept until this has happened in all of them. In the
            same transaction the lock is taken once, as a row lock is. Any other hold ends with its
            block. "block": every hold does, and no COMMIT looks at it. "transaction": as "auto",
            but taking it outside a transaction raises. Async code has no transactions: its holds
            end with their block.
        database: The alias of the database whose transactions count. None: those of all databases.
        commit_guard: Whether a hold is verified just before COMMIT of each transaction that keeps
            it, or that began and ends under it. If it is lost, or about to end, the transaction is
            rolled back and LockLost raised. A lease is about to end in its last second, or its last
            tenth if that is less.
        reentrant: Whether code inside a block that has the lock may take it again. It gets a nested
            hold at once, with the same fencing token. The last of them to end releases the lock.
            Asking for "exclusive" inside "shared" upgrades the hold, until its end. If False,
            taking it again raises LockError at once. What cannot be shown to run inside the block
            waits: other threads, other tasks, and the code around a generator that has the block.
            The holder's own child tasks wait as well. A hold that was acquired by hand has no block
            until ``with hold:``. "thread": whatever the holding thread or task runs takes it again,
            as with ``threading.RLock``.
        crash_release: Whether the lock becomes free within half a second of the end of the holder's
            process, however long its lease. The first and the last waiter check four times a second
            whether the holder's process still listens, and the others less often. So a holder that
            is cut off from Redis for a moment loses the lock as well, and is told. For exclusive
            locks on one server, not on a Cluster. The process keeps a connection open for it.
        replicas: How many replicas have to acknowledge a grant before it counts, so that a
            fail-over to one of them does not lose it; and each extend, the background's too. 0:
            none. Acquiring takes up to a quarter of the lease longer (1 s at most). If they do not
            answer in that time, it holds nothing and raises NotReplicated. Not on a Cluster.
        max_hold: Seconds for which a hold of async code is renewed while its event loop stands
            still; not given: REDIS_LOCKS["MAX_HOLD"]. A loop that computes for longer than the
            lease keeps its locks, and one that hangs for good loses them. In blocking code it has
            no effect.
        on_unavailable: What an acquire does when Redis cannot be asked. "raise" and "respond":
            raise LockBackendError, which a view that has the lock as its decorator answers with 503
            if it is "respond". "proceed": return a hold that guards nothing. It says so in
            `Hold.is_unguarded` and in the log. If Redis goes away during the block, its end logs
            that and does not raise, and COMMIT goes on: see `Hold.is_unverified`. What another
            version of this package holds, or too few `replicas` acknowledged, and what needs an
            answer for `read`, raises nevertheless. Not given: REDIS_LOCKS["ON_UNAVAILABLE"].
        at_least: Seconds for which the lock stays closed after its grant, however early it is
            released; 0: not at all. A crash keeps it closed as well: the lease is as long, if it is
            not given. A force-release opens it.
        max_waiting: How many may wait for it; None: any number. A caller that would be one more
            gets QueueFull at once, and does not wait. All who stand in the queue count, whatever
            their own `max_waiting` is. A waiter that has died counts until its turn comes. Of a
            set, each lock has such a queue.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    options: Options
    _names: tuple[str, ...]
    _reads: tuple[bytes, ...] = ()
    _plan: Plan | None = None
    """How it was asked for last, if one question is enough; None: it was not, or its names have
    changed.
    """
    _hold_type: type[Hold] = Hold
    _kind: NameKind = "lock"
    _is_unnamed = False
    """Whether a block must ask `_require_name` first."""

    def __init__(
        self,
        name: str,
        *more: str,
        read: Iterable[Command] = (),
        **options: Unpack[LockOptions],
    ) -> None:
        self._set_names((name, *more))
        self._reads = packed_reads(read)
        self.options = options_of(**options)

    def _set_names(self, names: Iterable[object]) -> None:
        self._names, self._plan = validate_names(names), None

    @classmethod
    def of_call(cls, names: tuple[str, ...], options: Options) -> Lock:
        """Return a lock of valid names, for one call of a function.

        It is not entered as a block.
        """
        lock = object.__new__(Lock)
        lock.options, lock._names = options, names
        return lock

    @property
    def _name(self) -> str:
        """What messages call it."""
        return joined(self._names)

    @property
    def _blocks(self) -> CalledBlocks:
        """Its open blocks that have no `Exit`; most locks never have one."""
        blocks: CalledBlocks = vars(self).setdefault("_called_blocks", CalledBlocks())
        return blocks

    @property
    def scope(self) -> Scope:
        """Until when its holds are kept."""
        return self.options.scope

    @property
    def name(self) -> str:
        """The name of the lock; those of a set are joined with commas.

        Raises:
            TypeError: It has none outside of a call; see `redis_lock`.
        """
        if self._is_unnamed:
            self._require_name()
        return self._name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the locks of the set; raises as `name`."""
        if self._is_unnamed:
            self._require_name()
        return self._names

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def acquire(self, *, wait: float | Unset | None = UNSET) -> Hold | None:
        """Return a hold, or None if somebody else still held the lock after `wait` seconds.

        Blocks for up to `wait` seconds (0: not at all; None: for ever; not given: the lock's own).
        An interrupt leaves neither hold nor place in the queue behind. Inside a transaction the
        hold is kept until that ends, whether released before or not (see `scope`). Elsewhere no
        other acquire is nested in it before ``with hold:``, not even one of the same thread.

        Raises:
            DeadlockDetected: Waiting on would never have ended.
            SynchronousOnlyOperation: An event loop runs in this thread: await `aacquire`.
            LockError: It would have waited for a block that it runs in; or the lease ended before
                its replicas knew of it.
            LockBackendError: Redis could not be asked. Nothing is held, or only until its lease
                ends.
            NotReplicated: Too few replicas acknowledged it (see `replicas`). Nothing is held.
        """
        refuse_in_loop("acquire()", "Await aacquire()")
        try:
            return self.enter(wait)
        except LockNotAvailable:
            return None

    async def aacquire(self, *, wait: float | Unset | None = UNSET) -> Hold | None:
        """Return a hold, or None; like `acquire`, but suspends instead of blocking.

        Cancellation leaves neither hold nor place in the queue behind. The search for deadlocks
        takes the task that awaits this for the holder, until ``async with hold:``.
        """
        try:
            return await self.aenter(wait)
        except LockNotAvailable:
            return None

    def hold(self, *, wait: float | Unset | None = UNSET) -> HoldContext[Hold]:
        """Return a context manager for one `with` or `async with`; see `__enter__`."""
        return HoldContext(self, wait)

    def __enter__(self) -> Hold:
        """Acquire, or raise.

        Raises:
            LockNotAvailable: Somebody else holds it, and the wait is 0.
            LockTimeout: Somebody else still held it after the wait.
            QueueFull: Somebody else holds it, and `max_waiting` others wait already.
            DeadlockDetected: Waiting on would never have ended.
            LockBackendError: Redis could not be asked.
        """
        block = block_entered(self)
        block.append(hold := self.enter(block=block))
        if not block.has_exit:
            self._blocks.push(block)
        return hold

    @block_exit
    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        """Release. Raises LockLost if the hold was lost, unless the body raised already."""
        self._blocks.pop().end(exc)

    def __aenter__(self) -> Coroutine[Any, Any, Hold]:
        """Acquire, or raise; see `__enter__`."""
        return self._begin_ablock(block_entered(self, is_async=True))

    async def _begin_ablock(self, block: Block) -> Hold:
        block.append(hold := await self.aenter(block=block))
        if watch_loss(hold):
            await hold.aend_block(None)
        if not block.has_exit:
            self._blocks.push(block)
        return hold

    @async_block_exit
    async def __aexit__(
        self, exc_type: object, exc: BaseException | None, traceback: object
    ) -> None:
        """Release; see `__exit__`."""
        await self._blocks.pop().aend(exc)

    def enter(self, wait: float | Unset | None = UNSET, block: Block | None = None) -> Hold:
        """Acquire, or raise as `__enter__` does.

        The hold is that of `block`, if given; else it is acquired by hand.
        """
        if self._is_unnamed:
            self._require_name()
        side, keepers = Side(self.options.using, block), self.options.scope.keepers()
        asked = self._ask(side, wait, keepers)
        return asked if isinstance(asked, Hold) else run_blocking(asked)

    async def aenter(self, wait: float | Unset | None = UNSET, block: Block | None = None) -> Hold:
        """Acquire, or raise; see `enter`."""
        if self._is_unnamed:
            self._require_name()
        if self.options.scope.name == "transaction":
            self.options.scope.refuse_async()
        asked = self._ask(Side.of_loop(self.options.using, block), wait, None)
        return asked if isinstance(asked, Hold) else await asked

    def _ask(
        self, side: Side, wait: float | Unset | None, keepers: Keepers | None
    ) -> Hold | Coroutine[Any, Any, Hold]:
        """Return the hold that `keepers` keep, or a new one, or what to await for that.

        The usual way is one question to one server, by a caller that has no other lock: see
        `Lease.ask`.
        """
        if wait is not UNSET:
            wait = wait_seconds(wait)
        backend, here, asked = side.backend, side.session, None
        # From here on it has the names of the server.
        self = self._on_server() if backend.renames else self  # noqa: PLW0642
        plan = self._plan
        if plan is None or plan.terms.backend() is not backend:
            plan = self._plan = self._plan_on(backend)
        if keepers is not None or self.options.reentrant == "thread":
            side.where = here.held.party
        kept = keepers and self._kept(side, keepers)
        if kept:
            return kept
        if not (plan is None or here.held or here.is_called or bounds.get()):
            side.wait = plan.terms.wait if wait is UNSET else wait
            hold = self._hold_type(backend, Lease(plan, here, side.renewer))
            if side.block is not None:
                side.block.append(hold)
            outcome = hold.lease.ask(side.driver, side.wait, hold, side.where)
            if isinstance(outcome, Hold):
                return hold if keepers is None else keepers.keep(hold, side.taken)
            asked = outcome
        return self._acquire(side, asked, wait, keepers)

    def _plan_on(self, backend: Backend) -> Plan | None:
        """Return how to ask for it on the usual way; None: that is not enough."""
        terms = self.options.terms(backend)
        plan, *others = plans_of(terms, self._names, self._reads)
        return None if others or terms.replicas else plan

    async def _acquire(
        self,
        side: Side,
        asked: Coroutine[Any, Any, Hold | Refused] | None,
        wait: float | Unset | None,
        keepers: Keepers | None,
    ) -> Hold:
        """Go on with what was `asked`, or acquire off the usual way; see `_ask`."""
        try:
            outcome = await (asked or self._acquire_by_partition(side, wait))
        except LockBackendError as error:
            outcome = await self._proceed(side, error)
        if isinstance(outcome, Refused):
            raise self._refused(side, outcome)
        if keepers is None:
            return outcome
        if side.block is not None:
            side.block.append(outcome)  # first: of several partitions it has the parts only
        return keepers.keep(outcome, side.taken)

    def _kept(self, side: Side, keepers: Keepers) -> Hold | None:
        """Note what the transaction is to keep.

        Return the hold by which it has that already, or None.
        """
        side.taken = Taken(side.backend, frozenset(self._names), self.options.mode)
        if self._reads:
            return None
        kept = keepers.find(side.taken, self._may_join)
        if kept is not None:
            for part in kept.parts:
                replication.require(part.lease, side.backend.replicas(self.options.replicas))
        return kept

    def _on_server(self) -> Lock:
        """Return this lock for one acquire, by its names on the server; see `server_name`."""
        lock = object.__new__(Lock)
        names = server_names(
            self._names, "semaphore" if self.options.mode.startswith("permit:") else self._kind
        )
        vars(lock).update(vars(self), _names=names, _plan=None)
        return lock

    def _require_name(self) -> None:
        """Raise TypeError if there is no name for a block; see `redis_lock`."""

    def _refused(self, side: Side, refused: Refused) -> LockNotAvailable:
        """Return the error for a lock that another holder still had at the end of the wait."""
        own = own_hold(side.session, side.backend, self._names)
        return not_available(self._name, refused, side.wait, own)

    async def _acquire_by_partition(self, side: Side, wait: float | Unset | None) -> Hold | Refused:
        """Acquire for a caller that has locks or little time, or in one partition after another."""
        plans: Sequence[Plan] = (
            plans_of(self.options.terms(side.backend), self._names, self._reads)
            if self._plan is None
            else (self._plan,)
        )
        side.wait = plans[0].terms.wait if wait is UNSET else wait
        if bounds.get():
            side.wait, side.ends = bounded(side.wait), at_last()
        if len(plans) == 1:
            return await self._acquired(side, plans[0], side.wait)
        if self._reads:
            msg = (
                f"the locks {self._name} are in several partitions and read= reaches only one: "
                "read when they are held"
            )
            raise ValueError(msg)

        async def take(plan: Plan, left: float | None) -> Hold | Refused:
            return await self._acquired(side, plan, left, renews=True)

        return await partitions.acquire(side.driver, take, plans, side.wait)

    async def _acquired(
        self, side: Side, plan: Plan, wait: float | None, *, renews: bool | None = None
    ) -> Hold | Refused:
        """Acquire the locks of one partition, nested in what the caller has, or from Redis.

        See `Lease.ask`.
        """
        own = ""
        if side.session.held or side.session.is_called:
            nested = await self._nested(side, plan, wait)
            if nested is not None:
                return nested
            own = own_hold(side.session, side.backend, plan.names) if wait is None else ""
        hold = self._hold_of(side, plan, renews=renews)
        outcome = hold.lease.ask(side.driver, wait, hold, side.where, own, side.ends)
        return outcome if isinstance(outcome, Hold) else await outcome

    def _hold_of(
        self, side: Side, plan: Plan, token: str | None = None, *, renews: bool | None = None
    ) -> Hold:
        """Return a hold, that of the caller's block, of what has yet to be asked for."""
        kind, renewer = Lease, side.renewer
        if plan.terms.replicas:
            kind, renewer = ReplicatedLease, side.backend.patient(side.driver)
        lease = kind(plan, side.session, renewer, token, renews)
        hold = self._hold_type(side.backend, lease)
        if side.block is not None:
            side.block.append(hold)
        return hold

    async def _nested(self, side: Side, plan: Plan, wait: float | None) -> Hold | Refused | None:
        """Return a hold nested in what the caller has, or None if it has nothing in its own way."""
        options = self.options
        taken = Taken(side.backend, frozenset(plan.names), options.mode)
        nested = await reenter(
            *(taken, side.session, side.driver, wait, self._reads),
            reentrant=bool(options.reentrant),
            may_join=self._may_join,
            where=side.where,
            block=side.block,
        )
        if isinstance(nested, Hold):
            nested.lease.guard(options.scope.guarded)
            try:
                replication.require(nested.lease, side.backend.replicas(options.replicas))
            except LockError:
                await give_back(nested, side.driver)
                raise
        return nested

    async def _proceed(self, side: Side, error: LockBackendError) -> Hold:
        """Return a hold that guards nothing, as the server could not be asked; or raise `error`."""
        if not self._proceeds or not may_proceed(error):
            raise error
        terms = self.options.terms(side.backend)
        plan = Plan(terms, self._names, side.backend.groups(self._names)[0][1], self._name)
        lease = unguarded.lease_of(plan, side.session)
        hold = self._hold_type(side.backend, lease)
        if side.block is not None:
            side.block.append(hold)
        lease.begin(hold, side.where)
        try:
            await unguarded.tell(side.driver, lease, error)
        except BaseException:
            lease.leave(hold)
            raise
        return hold

    @property
    def on_unavailable(self) -> OnUnavailable:
        """What an acquire does when Redis cannot be asked, by its own argument or the setting."""
        own = self.options.on_unavailable
        return get_settings().on_unavailable if own is UNSET else own

    @property
    def says_on_unavailable(self) -> bool:
        """Whether that is by its own argument."""
        return self.options.on_unavailable is not UNSET

    @property
    def _proceeds(self) -> bool:
        """Whether the work goes on without it when Redis cannot be asked."""
        return self.on_unavailable == "proceed" and not self._reads

    def _may_join(self, outer: Hold | Lease) -> bool:
        """Whether a hold of it may be nested in `its`, also where that guards nothing.

        Raises LockError if the end of `its` would open the lock too early.
        """
        if self.options.at_least_ms:
            lease = outer if isinstance(outer, Lease) else outer.lease
            require_closing(lease, self.options.at_least_ms)
        return not outer.is_unguarded or self._proceeds

    def __getstate__(self) -> dict[str, Any]:
        # The copy may be used with other settings; and connections stay where they are.
        kept = {**vars(self), "_plan": None}
        kept.pop("_called_blocks", None)
        return kept

    @property
    def mode(self) -> str:
        """How the lock is held: "exclusive", "shared" or "permit:CAPACITY"."""
        return self.options.shown_mode or self.options.mode


H = TypeVar("H", bound=Hold)
H_co = TypeVar("H_co", bound=Hold, covariant=True)


class Enterable(Protocol[H_co]):
    """What a block enters: a lock, or the job of one call."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    def enter(self, wait: float | Unset | None, block: Block) -> H_co:
        """Acquire a hold for `block`, or raise."""

    async def aenter(self, wait: float | Unset | None, block: Block) -> H_co:
        """Acquire a hold for an async block; see `enter`."""


class HoldContext(Generic[H]):
    """One `with` or `async with` of a lock, from `Lock.hold`. Single use at a time."""

    __slots__ = ("_block", "_lock", "_wait")

    def __init__(self, lock: Enterable[H], wait: float | Unset | None = UNSET) -> None:
        if wait is not UNSET:
            wait_seconds(wait)  # says now what is wrong with it
        self._lock = lock
        self._wait = wait
        self._block = Block()

    def _unused(self) -> Enterable[H]:
        if self._block and self._block[-1].is_open:
            msg = (
                f"this hold of {self._lock.name!r} is in use; call Lock.hold() once for each block"
            )
            raise RuntimeError(msg)
        return self._lock

    def __enter__(self) -> H:
        lock, block = self._unused(), block_entered(self)
        block.append(hold := lock.enter(self._wait, block))
        self._block = block
        return hold

    @block_exit
    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self._block.end(exc)

    def __aenter__(self) -> Coroutine[Any, Any, H]:
        return self._begin_ablock(block_entered(self, is_async=True))

    async def _begin_ablock(self, block: Block) -> H:
        block.append(hold := await self._unused().aenter(self._wait, block))
        self._block = block
        if watch_loss(hold):
            await hold.aend_block(None)
        return hold

    @async_block_exit
    async def __aexit__(
        self, exc_type: object, exc: BaseException | None, traceback: object
    ) -> None:
        await self._block.aend(exc)
