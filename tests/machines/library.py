"""The machine that uses the library, blocking or async, through a proxy that loses replies."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any, Self

import pytest
from hypothesis.stateful import invariant

from redis_locks import Hold, Lock, LockError, LockLost, LockNotAvailable, Semaphore, inspection
from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol.acquire import LockWait
from redis_locks.protocol.lease import Lease
from redis_locks.protocol.store import Refused
from redis_locks.values.keys import LockKeys, grant_channel, lock_keys, partition_of
from tests.faults.proxy import Proxy
from tests.machines.machine import BRIEFLY, NAMES, NO, Machine
from tests.machines.specification import Party
from tests.support import stored
from tests.support.world import PATIENCE, Tasks, World, until

BRIEF = 0.005
AN_HOUR = 3600.0


class Died(BaseException):
    """The process is gone: nothing is sent any more."""


class KnownLockWait(LockWait):
    """One acquire that the test can end at will: see `gives_up` and `dies`."""

    made: list[KnownLockWait] = []
    dead = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        its = super().__new__(cls)
        cls.made.append(its)
        return its

    @property
    def lasts(self) -> bool:
        """Whether it waits for long, if it is known yet what it asks for."""
        return "wait_ms" in vars(self) and self._left(time.monotonic()) > AN_HOUR / 2

    def out_of_time(self) -> None:
        self.wait = time.monotonic() - self.started

    async def heard(self, *args: Any) -> Any:
        if self.dead:
            raise Died
        return await super().heard(*args)

    def won_by(self, *args: Any) -> Any:
        if self.dead:
            raise Died
        return super().won_by(*args)

    async def reconnect(self, *args: Any) -> None:
        if self.dead:
            raise Died
        await super().reconnect(*args)

    async def ask_to_give_up(self) -> Refused:
        if self.dead:
            raise LockBackendError("the dead say nothing")
        return await super().ask_to_give_up()


class KnownLeases(list[Lease]):
    """The leases that were asked for by who waits for long, granted or not."""

    def noting(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def noted(lease: Lease, driver: Any, wait: float | None, *rest: Any) -> Any:
            if wait is not None and wait > AN_HOUR / 2:
                self.append(lease)
            return ask(lease, driver, wait, *rest)

        return noted


known_leases = KnownLeases()


def in_partition(name: str, wanted: int, partitions: int) -> str:
    """A lock name that begins so and is in the wanted partition."""
    names = (f"{name}{number}" for number in count())
    return next(each for each in names if partition_of(each, partitions) == wanted)


class LibraryMachine(Machine):
    proxy: Proxy
    server_url: str
    world: World
    patience = PATIENCE

    def __init__(self) -> None:
        super().__init__()
        run = uuid.uuid4().hex
        self.names = {
            name: in_partition(f"{run}:{name}", number % self.partitions, self.partitions)
            for number, name in enumerate(NAMES)
        }
        self.holds: dict[Party, Hold] = {}
        self.waiting: dict[Party, Future[Hold | None]] = {}
        self.by_token: dict[str, Party] = {}
        self.users = 0

    def name(self, name: str) -> str:
        return self.names[name]

    def keys_of(self, name: str) -> LockKeys:
        return lock_keys(self.prefix, self.partition(name), self.name(name))

    def lose(self, position: int, losses: int) -> None:
        self.proxy.lose(position, losses=losses)

    def lock(self, party: Party) -> Lock:
        names = [self.name(name) for name in party.names]
        # Each has a connection of its own: waiters whose connection breaks just when a lock becomes
        # free lose their place.
        self.users += 1
        own = f"{self.proxy.url}?client_name=user{self.users}"
        driver = backend_for(own).driver
        if self.users % 2 and isinstance(driver, BlockingDriver):
            # Some find a connection, others open one.
            driver.checkin(run_blocking(driver.checkout()))
        if party.is_permit:
            return Semaphore(names[0], party.capacity, using=own, wait=None)
        return Lock(*names, mode=party.mode, using=own, wait=None)  # type: ignore[arg-type]

    def acquiring(self, party: Party, **options: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """What of the world acquires it, and with what."""
        if party.upgrades:
            return self.world.do, (self.holds[party.upgrades], "upgrade")
        return self.world.acquire, (self.lock(party),)

    def ask(self, party: Party, wait: str) -> bool:
        acquire, args = self.acquiring(party)
        seconds = {NO: 0, BRIEFLY: BRIEF}.get(wait, self.patience)
        try:
            hold = acquire(*args, wait=seconds)
        except LockNotAvailable:
            if party.upgrades:  # one of several partitions may have been exclusive for a moment
                self.know(party.upgrades)
            return False
        if hold is None and not party.upgrades:
            return False
        self.has(party, hold)
        return True

    def has(self, party: Party, hold: Hold | None) -> None:
        """Note the hold of a party. An upgrade is of the hold there is."""
        taken = self.holds.pop(party.upgrades) if party.upgrades else hold
        assert taken is not None
        assert not taken.is_lost
        assert party.mode == taken.mode
        self.holds[party] = taken
        self.know(party)
        fences = [self.of_server(name)[0][party.known_as(name)] for name in party.names]
        assert [taken.fencing_token] * len(fences) == fences

    def know(self, party: Party) -> None:
        """Note what the server knows a hold by."""
        party.token = self.holds[party].token
        for part in self.holds[party].parts:
            real = part.lease.request.names
            party.tokens |= {name: part.token for name in party.names if self.name(name) in real}
            self.by_token.setdefault(part.token, party)  # a part that was granted at once, too

    def queue_up(self, party: Party) -> None:
        acquire, args = self.acquiring(party)
        self.waiting[party] = self.world.start(acquire, *args, wait=AN_HOUR)
        self.model.comes(party, waits=True)
        self.until_all_listen()

    def until_all_listen(self) -> None:
        """Return when all stand in their queues and would hear of a grant, and are known."""
        for party in self.model.holders + self.model.line:
            if not party.token:  # it is the latest to come, or a part of that
                until(lambda party=party: self.identified(party), within=self.patience)
        for party in self.model.line:
            until(lambda party=party: self.listens(party), within=self.patience)

    def identified(self, party: Party) -> bool:
        """Find the token of who has come."""
        names = {self.name(name) for name in party.names}
        asked = [(each.names, each.token) for each in known_leases]
        asked += [(each.request.names, each.token) for each in KnownLockWait.made if each.lasts]
        for its, token in asked:
            if set(its) == names and token not in self.by_token:
                party.token, self.by_token[token] = token, party
                return True
        return False

    def waiter(self, party: Party) -> KnownLockWait:
        """Return what waits for a party: a lease asks silently at first, and makes it later."""

        def made() -> list[KnownLockWait]:
            return [each for each in KnownLockWait.made if each.request.token == party.token]

        until(made, within=self.patience)
        return made()[0]

    def listens(self, party: Party) -> bool:
        for keys in map(self.keys_of, party.names):
            if party.token.encode() not in stored.line(self.client, keys.lock):
                return False
            claim = stored.claim_of_waiter(self.client, keys.lock, party.token)
            if not self.hears(claim.split()[4].decode()):
                return False
        return True

    def hears(self, listener: str) -> bool:
        ((_, heard),) = self.client.pubsub_numsub(grant_channel(self.prefix, listener))
        return bool(heard)

    def granted(self, party: Party) -> None:
        future = self.waiting.pop(party)
        if party not in self.model.holders:  # an upgrade whose shared hold was lost
            with pytest.raises(LockLost):
                future.result(self.patience)
            self.old.append(party.upgrades)  # type: ignore[arg-type]
        else:
            self.has(party, future.result(self.patience))

    def look(self, party: Party) -> None:
        """Wake it up: the message says to look for a deadlock, and then it asks again."""
        for part in [each for each in self.by_token.values() if each.whole is party]:
            self.look(part)
        (name, *_) = party.names
        lock = self.keys_of(name).lock
        if party.token.encode() not in stored.line(self.client, lock):
            return  # another one's look has had it granted, or sent away
        claim = stored.claim_of_waiter(self.client, lock, party.token)
        channel = grant_channel(self.prefix, claim.split()[4].decode())
        assert self.client.publish(channel, f"{party.token} 0 0")

    def extended(self, held: Party) -> None:
        self.world.extend(self.holds[held], 30)
        assert self.holds[held].remaining > 20

    def released(self, held: Party) -> None:
        self.world.release(self.holds[held])

    def downgraded(self, held: Party) -> None:
        self.world.do(self.holds[held], "downgrade")

    def handed_over(self, held: Party) -> None:
        hold = self.holds[held]
        if len(hold.parts) > 1:
            with pytest.raises(LockError, match="several partitions"):
                self.world.do(hold, "detach")
            return
        text = self.world.do(hold, "detach")
        using = f"{self.proxy.url}?client_name=heir"
        if isinstance(self.world, Tasks):
            heir = self.world.run(Hold.aadopt(text, using=using))
        else:
            heir = self.world.start(Hold.adopt, text, using=using).result(self.patience)
        assert heir.fencing_token == hold.fencing_token
        self.holds[held] = heir
        self.know(held)

    def force_released(self, held: Party, name: str) -> None:
        # One that releases again after a lost reply believes that it did so before.
        self.lose(0, 0)
        real, tokens = self.name(name), [held.known_as(name)]
        did = inspection.force_release(real, using=self.server_url, tokens=tokens)
        assert did.ended == 1
        self.overtaken(name, did.fencing_token)

    def lease_over(self, held: Party) -> None:
        for keys in map(self.keys_of, held.names):
            if held.mode == "exclusive":
                stored.drop_holder(self.client, keys.lock)
            else:
                tokens = {held.known_as(name): 1 for name in held.names}
                self.client.zadd(keys.sharers, tokens, xx=True)
        for part in self.holds[held].parts:
            part.lease.deadline = time.monotonic()

    def comes_back(self, old: Party) -> None:
        hold = self.holds[old]
        if hold.released:
            self.world.release(hold)
            return
        self.lose(0, 0)  # as after a force-release
        with pytest.raises(LockLost):
            self.world.release(hold)

    def gives_up(self, waiter: Party) -> None:
        self.waiter(waiter).out_of_time()
        self.look(waiter)
        future = self.waiting.pop(waiter.whole or waiter)
        if waiter.upgrades:
            with pytest.raises(LockNotAvailable):
                future.result(self.patience)
        else:
            assert future.result(self.patience) is None

    def cancelled(self, waiter: Party) -> None:
        name = self.name(waiter.names[-1])
        found = inspection.lock(name, using=self.server_url)
        assert found is not None
        (its,) = (each for each in found.waiters if each.token == waiter.token)
        assert inspection.cancel(its, using=self.server_url)
        with pytest.raises(LockError, match="cancelled by an operator"):
            self.waiting.pop(waiter.whole or waiter).result(self.patience)

    def dies(self, waiter: Party) -> None:
        self.waiter(waiter).dead = True
        self.look(waiter)
        with pytest.raises(Died):
            self.waiting.pop(waiter.whole or waiter).result(self.patience)

    @invariant()
    def the_server_agrees(self) -> None:
        self.until_all_listen()
        super().the_server_agrees()
        for party in self.complete():
            self.holds[party].check()

    def clear(self) -> None:
        for attempt in KnownLockWait.made:
            attempt.dead = True
        KnownLockWait.made.clear()
        known_leases.clear()
        for part in (part for hold in self.holds.values() for part in hold.parts):
            part.lease.lose("the machine is done")
            part.lease.renewer.discard(part.lease)
        super().clear()
