"""Random use of locks of all modes while replies get lost, against the model of a page.

The scripts' own machine repeats calls by itself; here the library does, over a real proxy that closes
the connection after a command ran.
"""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from dataclasses import dataclass

import pytest
import redis
from django.conf import settings as configured
from django.test import override_settings
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from redis_locks import Hold, Lock, LockNotAvailable, Semaphore, attempts
from redis_locks.keys import grant_channel
from redis_locks.testing.server import EmbeddedServer
from tests.contract.world import PATIENCE, Observer, Tasks, Threads, World, keys_of, until
from tests.faults.proxy import Proxy
from tests.scripts.test_machine import NAMES, Model, Party, names_of_sets, permits, plain_modes


@dataclass
class User(Party):
    """A party, and what the library gave it."""

    hold: Hold | None = None
    waiting: Future[Hold | None] | None = None


class LibraryMachine(RuleBasedStateMachine):
    server: EmbeddedServer
    client: redis.Redis
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.prefix = f"test:{uuid.uuid4().hex}"
        self.proxy = Proxy(self.server.url)
        self.proxy.__enter__()
        self.server_side = Observer(self.client)
        self.model = Model()
        self.fences = dict.fromkeys(NAMES, 0)
        self.count = 0

    def lock(self, user: User) -> Lock:
        names = [f"{self.prefix}:{name}" for name in user.names]
        # Each has a connection of its own: waiters whose connection breaks just when a lock becomes free lose their place.
        own = f"{self.proxy.url}?client_name={user.token}"
        if user.mode.startswith("permit"):
            return Semaphore(names[0], user.capacity, using=own, wait=None)
        mode = "shared" if user.mode == "shared" else "exclusive"
        return Lock(*names, mode=mode, using=own, wait=None)  # type: ignore[arg-type]

    def all_waiters_listen(self) -> bool:
        """Whether all stand in their queues and would hear of a grant."""
        for name in NAMES:
            keys = keys_of(f"{self.prefix}:{name}")
            for token in self.client.lrange(keys.queue, 0, -1):
                claim = self.client.hget(keys.claims, token)
                if claim is None or not self.hears(claim.split()[4].decode()):
                    return False
        return self.queue_lengths() == [len(self.model.queue_of(name)) for name in NAMES]

    def hears(self, listener: str) -> bool:
        ((_, heard),) = self.client.pubsub_numsub(grant_channel("redis_locks", listener))
        return bool(heard)

    def queue_lengths(self) -> list[int]:
        return [self.server_side.waiters(f"{self.prefix}:{name}") for name in NAMES]

    def settle(self) -> None:
        """Let the model grant, and wait until the same users were granted really."""
        self.model.settle()
        for user in self.model.holders:
            if isinstance(user, User) and user.waiting is not None:
                user.hold, user.waiting = user.waiting.result(PATIENCE), None
                self.granted(user)

    def granted(self, user: User) -> None:
        assert user.hold is not None
        assert not user.hold.is_lost
        for name in user.names:
            assert user.hold.fencing_token > self.fences[name]
            self.fences[name] = user.hold.fencing_token

    def come(self, user: User, *, waits: bool) -> None:
        free = all(
            not self.model.queue_of(name) and self.model.room(user, name) for name in user.names
        )
        if free or not waits:
            user.hold = self.world.acquire(self.lock(user), wait=0)
            assert free == (user.hold is not None)
            if free:
                self.model.grant(user)
                self.granted(user)
        else:
            self.model.queue.append(user)
            user.waiting = self.world.start(self.world.acquire, self.lock(user))
            until(self.all_waiters_listen)

    def new_user(self, names: tuple[str, ...], mode: str) -> User:
        self.count += 1
        return User(f"user{self.count}", names, mode)

    def a_holder(self, data: st.DataObject, mode: str = "") -> User | None:
        found = [user for user in self.model.holders if mode in ("", user.mode)]
        user = data.draw(st.sampled_from(found)) if found else None
        return user if isinstance(user, User) else None

    @rule(position=st.integers(1, 3), losses=st.integers(1, 2))
    def lose_a_reply(self, position: int, losses: int) -> None:
        self.proxy.lose(position, losses=losses)

    @rule(names=names_of_sets, mode=plain_modes, waits=st.booleans())
    def acquire(self, names: tuple[str, ...], mode: str, waits: bool) -> None:
        self.come(self.new_user(names, mode), waits=waits)

    @rule(name=st.sampled_from(NAMES), mode=permits, waits=st.booleans())
    def acquire_a_permit(self, name: str, mode: str, waits: bool) -> None:
        self.come(self.new_user((name,), mode), waits=waits)

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if user := self.a_holder(data):
            assert user.hold is not None
            self.model.holders.remove(user)
            self.world.release(user.hold)
            self.settle()

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        if user := self.a_holder(data):
            assert user.hold is not None
            self.world.extend(user.hold, 30)
            assert user.hold.remaining > 20

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def downgrade(self, data: st.DataObject) -> None:
        if user := self.a_holder(data, "exclusive"):
            assert user.hold is not None
            self.world.do(user.hold, "downgrade")
            user.mode = "shared"
            self.settle()

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def upgrade(self, data: st.DataObject) -> None:
        if user := self.a_holder(data, "shared"):
            assert user.hold is not None
            alone = all([user] == self.model.holders_of(name) for name in user.names)
            if alone:
                self.world.do(user.hold, "upgrade", wait=0)
                user.mode = "exclusive"
                self.granted(user)
            else:
                with pytest.raises(LockNotAvailable):
                    self.world.do(user.hold, "upgrade", wait=0)

    @invariant()
    def the_server_agrees(self) -> None:
        until(self.all_waiters_listen)
        for name in NAMES:
            keys = keys_of(f"{self.prefix}:{name}")
            alone = self.client.get(keys.holder)
            tokens = set(self.client.zrange(keys.sharers, 0, -1))
            tokens |= {alone.split()[0]} if alone else set()
            holders = [user for user in self.model.holders_of(name) if isinstance(user, User)]
            assert tokens == {user.hold.token.encode() for user in holders if user.hold}
            assert len(holders) == len(tokens)
            assert not any(user.hold.is_lost for user in holders if user.hold)

    def teardown(self) -> None:
        while self.model.holders:
            user = self.model.holders.pop(0)
            assert isinstance(user, User)
            assert user.hold is not None
            self.world.release(user.hold)
            self.settle()
        assert not self.model.queue
        left = set().union(*(self.server_side.left_of(f"{self.prefix}:{name}") for name in NAMES))
        self.proxy.__exit__(None, None, None)
        assert set() == left


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make_world", [Threads, Tasks], ids=["blocking", "async"])
@pytest.mark.parametrize("examples", [8, pytest.param(300, marks=pytest.mark.long)])
def test_the_library_behaves_as_its_model_whatever_replies_are_lost(
    redis_server: EmbeddedServer,
    client: redis.Redis,
    examples: int,
    make_world: type[World],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Who shows that it is there, or looks for a deadlock, just when a lock becomes free may lose its
    # connection by that, and so its place; see `lock`. On a slow machine there is time for both.
    monkeypatch.setattr(attempts, "RECHECK", 10 * PATIENCE)
    patient = override_settings(REDIS_LOCKS={**configured.REDIS_LOCKS, "DEADLOCK_TIMEOUT": None})
    LibraryMachine.server, LibraryMachine.client = redis_server, client
    LibraryMachine.world = make_world()
    test = LibraryMachine.TestCase()
    test.settings = settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        with patient:
            test.runTest()
    finally:
        LibraryMachine.world.close()
