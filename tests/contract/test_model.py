"""Random sequences of operations against a model of a dozen lines."""

from __future__ import annotations

import uuid
from concurrent.futures import Future

import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from redis_locks import Hold, Lock, LockLost
from redis_locks.testing.server import EmbeddedServer
from tests.support import stored
from tests.support.world import PATIENCE, Observer, Tasks, keys_of


class LockMachine(RuleBasedStateMachine):
    """The model: who holds, who waits in which order, and the last fencing token."""

    server: EmbeddedServer

    def __init__(self) -> None:
        super().__init__()
        self.tasks = Tasks()
        self.name = f"model:{uuid.uuid4().hex}"
        self.lock = Lock(self.name, using=self.server.url, lease=60, wait=PATIENCE)
        self.client = redis.Redis.from_url(self.server.url)
        self.server_side = Observer(self.client)
        self.holder: Hold | None = None
        self.queue: list[Future[Hold | None]] = []
        self.old: list[Hold] = []
        self.fence = 0

    def _now_holds(self, hold: Hold | None) -> None:
        assert hold is not None
        assert hold.fencing_token > self.fence
        self.fence = hold.fencing_token
        self.holder = hold

    def _passes_on(self) -> None:
        self.holder = None
        if self.queue:
            self._now_holds(self.queue.pop(0).result(PATIENCE))

    @rule()
    def try_to_acquire(self) -> None:
        hold = self.tasks.acquire(self.lock, wait=0)
        if self.holder is None:
            self._now_holds(hold)
        else:
            assert hold is None

    @precondition(lambda self: self.holder is not None and len(self.queue) < 5)
    @rule()
    def queue_up(self) -> None:
        self.queue.append(self.tasks.start(self.tasks.acquire, self.lock))
        self.server_side.until_waiters(self.name, len(self.queue))

    @precondition(lambda self: self.holder is not None)
    @rule()
    def release(self) -> None:
        assert self.holder is not None
        self.tasks.release(self.holder)
        self.old.append(self.holder)
        self._passes_on()

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def cancel_a_waiter(self, data: st.DataObject) -> None:
        waiter = self.queue.pop(data.draw(st.integers(0, len(self.queue) - 1)))
        waiter.cancel()
        self.server_side.until_waiters(self.name, len(self.queue))

    @precondition(lambda self: self.holder is not None)
    @rule(seconds=st.sampled_from([0.5, 60, 90]))
    def extend(self, seconds: float) -> None:
        assert self.holder is not None
        before = self.holder.remaining
        self.tasks.extend(self.holder, seconds)
        assert self.holder.remaining >= min(before, max(before, seconds)) - 5

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def release_an_old_hold_again(self, data: st.DataObject) -> None:
        self.tasks.release(data.draw(st.sampled_from(self.old)))

    @precondition(lambda self: self.holder is not None and not self.queue)
    @rule()
    def revoke(self) -> None:
        assert self.holder is not None
        stored.drop_holder(self.client, keys_of(self.name).lock)
        revoked, self.holder = self.holder, None
        try:
            self.tasks.release(revoked)
        except LockLost:
            self.old.append(revoked)
        else:
            raise AssertionError("a revoked hold was released without a word")

    @invariant()
    def the_server_agrees(self) -> None:
        assert self.server_side.holder(self.name) == (self.holder.token if self.holder else None)
        assert len(self.queue) == self.server_side.waiters(self.name)
        if self.holder is not None:
            self.holder.check()

    def teardown(self) -> None:
        while self.holder is not None:
            self.release()
        left = self.server_side.left_of(self.name)
        self.tasks.close()
        self.client.close()
        # A revoked holder leaves its line in the index until the next acquire or the lease's end.
        assert left <= {"index"} if self.old else not left


def test_a_lock_behaves_as_its_model(redis_server: EmbeddedServer) -> None:
    LockMachine.server = redis_server
    test = LockMachine.TestCase()
    test.settings = settings(
        max_examples=25,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    test.runTest()
