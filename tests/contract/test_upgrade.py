"""Shared holds that become exclusive, and exclusive ones that become shared, blocking and async."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, wait
from threading import Event
from time import monotonic
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from redis_locks import (
    Hold,
    Lock,
    LockBackendError,
    LockError,
    LockLost,
    LockNotAvailable,
    LockNotHeld,
    LockTimeout,
    Semaphore,
    inspection,
)
from tests.support import calls, leases
from tests.support.world import (
    PATIENCE,
    Observer,
    Threads,
    World,
    granted,
    held,
    in_line,
    keys_of,
    served,
    until,
    until_renewed,
)


def test_the_only_shared_holder_becomes_exclusive_and_back(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, mode="shared"))
    first = hold.fencing_token
    world.do(hold, "upgrade", wait=0)
    assert "exclusive" == hold.mode
    assert hold.fencing_token > first
    assert world.acquire(Lock(name, mode="shared"), wait=0) is None
    world.do(hold, "upgrade")
    reader = in_line(world, Lock(name, mode="shared"), server_side)
    world.do(hold, "downgrade")
    other = granted(reader.result(PATIENCE))
    assert "shared" == hold.mode
    world.do(hold, "downgrade")
    world.extend(hold, 60)
    world.release(hold)
    world.release(other)
    assert set() == server_side.left_of(name)


def test_an_upgrade_waits_for_the_others_but_goes_before_the_queue(
    world: World, name: str, server_side: Observer
) -> None:
    hold, other = (held(world, Lock(name, mode="shared")) for _ in range(2))
    writer = in_line(world, Lock(name), server_side)
    upgrade = world.start(world.do, hold, "upgrade")
    server_side.until_waiters(name, 2)
    assert ["upgrade", "exclusive"] == [
        waiter.mode for waiter in inspection.parties().waiters if waiter.lock == name
    ]
    world.release(other)
    upgrade.result(PATIENCE)
    assert "exclusive" == hold.mode
    world.release(hold)
    served(world, writer)


WOULD_WAIT_FOR_ITSELF = (
    "would wait for its own thread or task, which holds '.*:both, .*that hold has ended"
)


@pytest.mark.parametrize("upgraded", ["outer", "inner", "nested"])
def test_an_upgrade_that_would_wait_for_a_block_around_it_is_refused_at_once(
    name: str, upgraded: str
) -> None:
    both = f"{name}:both"
    with Lock(both, f"{name}:outer", mode="shared") as outer:
        with Lock(both, f"{name}:inner", mode="shared", wait=0) as inner:
            upgrades = {
                "outer": outer.upgrade,
                "inner": inner.upgrade,
                "nested": Lock(both).acquire,
            }
            with pytest.raises(LockError, match=WOULD_WAIT_FOR_ITSELF) as caught:
                upgrades[upgraded](wait=None)
            assert type(caught.value) is LockError
            inner.check()
        outer.upgrade(wait=0)
        assert "exclusive" == outer.mode


def test_so_it_is_in_async_blocks(name: str) -> None:
    outer, inner = (Lock(name, f"{name}:{more}", mode="shared") for more in "ab")

    async def refused() -> None:
        async with outer, inner as hold:
            await hold.aupgrade(wait=None)

    with pytest.raises(LockError, match="would wait for its own thread or task"):
        asyncio.run(refused())


def test_so_it_is_if_the_task_that_waits_for_this_call_has_the_block(name: str) -> None:
    def upgrade() -> None:
        with Lock(name, f"{name}:more", mode="shared") as hold:
            hold.upgrade(wait=PATIENCE)

    async def refused() -> None:
        async with Lock(name, mode="shared"):
            await sync_to_async(upgrade)()

    with pytest.raises(LockError, match="would wait for its own thread or task") as caught:
        asyncio.run(refused())
    assert type(caught.value) is LockError


def test_an_upgrade_waits_for_a_hold_of_its_own_thread_that_has_no_block(name: str) -> None:
    by_hand = Lock(name, mode="shared").acquire()
    assert by_hand is not None
    with Lock(name, mode="shared") as hold:
        end = Threads().start(by_hand.release)
        hold.upgrade(wait=PATIENCE)
        end.result(PATIENCE)


def test_an_upgrade_that_waited_in_vain_leaves_the_hold_shared(
    world: World, name: str, server_side: Observer
) -> None:
    hold, other = (held(world, Lock(name, mode="shared")) for _ in range(2))
    with pytest.raises(LockNotAvailable, match="is held by"):
        world.do(hold, "upgrade", wait=0)
    with pytest.raises(LockTimeout, match=r"within 0\.05 s"):
        world.do(hold, "upgrade", wait=0.05)
    assert "shared" == hold.mode
    third = held(world, Lock(name, mode="shared"))
    for each in (hold, other, third):
        world.release(each)
    assert set() == server_side.left_of(name)


def modes_of(name: str) -> list[tuple[str, str]]:
    info = inspection.lock(name)
    return [(holder.mode, holder.token) for holder in info.holders] if info else []


@pytest.mark.parametrize("verb", ["discard", "add"])
def test_interrupted_after_the_grant_of_an_upgrade_the_hold_is_shared(
    world: World, name: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(world, Lock(name, mode="shared", lease=1.2))
    token = hold.token

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise InterruptedError

    leases.replace_renewal(monkeypatch, hold, verb, interrupted)
    with pytest.raises(InterruptedError):
        world.do(hold, "upgrade", wait=0)
    assert [("shared", token)] == modes_of(name)
    assert ("shared", token) == (hold.mode, hold.token)
    until_renewed(hold)
    world.do(hold, "upgrade", wait=0)
    assert [("exclusive", hold.token)] == modes_of(name)
    world.release(hold)


@pytest.mark.usefixtures("interrupted_downgrade")
def test_interrupted_on_its_way_a_downgraded_hold_is_shared(
    world: World, name: str, hold: Hold
) -> None:
    with pytest.raises(InterruptedError):
        world.do(hold, "downgrade")
    assert [("shared", hold.token)] == modes_of(name)
    assert "shared" == hold.mode
    world.release(hold)


def meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, hold: Hold, verb: str, *args: Any
) -> list[BaseException | None]:
    """Have another thread or task call a method of `hold` when its upgrade is granted.

    The call comes before the reply is read.

    Return where its error will be, or None.
    """
    outcome: list[BaseException | None] = []

    async def granted(plain: calls.Handler, *asked: Any, **options: Any) -> Any:
        reply = await plain(*asked, **options)
        if not outcome:
            outcome.append(None)
            try:
                if world.kind == "async":
                    await asyncio.create_task(getattr(hold, f"a{verb}")(*args))
                else:
                    world.start(world.do, hold, verb, *args).result(PATIENCE)
            except LockError as error:
                outcome[0] = error
        return reply

    calls.intercept(monkeypatch, "acquire", granted)
    return outcome


def test_a_hold_that_is_released_while_it_is_upgraded_is_free(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch, server_side: Observer
) -> None:
    hold = held(world, Lock(name, mode="shared"))
    outcome = meanwhile(world, monkeypatch, hold, "release")
    with pytest.raises(LockNotHeld, match="released already"):
        world.do(hold, "upgrade", wait=0)
    assert [None] == outcome
    assert set() == server_side.left_of(name)


class ReleasedMeanwhile:
    """Another thread releases `hold` when its upgrade is granted, and stops after its question."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hold: Hold, *, interrupts: bool) -> None:
        self._hold = hold
        self._interrupts = interrupts
        self._asked, self.goes_on = Event(), Event()
        self.release: Future[None] = Future()
        calls.intercept(monkeypatch, "acquire", self._granted)
        calls.intercept(monkeypatch, "release", self._released)

    async def _granted(self, plain: calls.Handler, *given: Any, **options: Any) -> Any:
        reply = await plain(*given, **options)
        self.release = Threads().start(self._hold.release)
        assert self._asked.wait(PATIENCE)
        if self._interrupts:
            raise InterruptedError
        return reply

    async def _released(self, plain: calls.Handler, *given: Any, **options: Any) -> Any:
        reply = await plain(*given, **options)
        if not self._asked.is_set():
            self._asked.set()
            assert self.goes_on.wait(PATIENCE)
        return reply


def test_a_release_is_no_loss_if_the_upgrade_did_it(
    name: str, monkeypatch: pytest.MonkeyPatch, server_side: Observer
) -> None:
    """The upgrade was heard of between the two questions of the release."""
    hold = held(Threads(), Lock(name, mode="shared"))
    other = ReleasedMeanwhile(monkeypatch, hold, interrupts=False)
    with pytest.raises(LockNotHeld, match="released already"):
        hold.upgrade(wait=0)
    other.goes_on.set()
    other.release.result(PATIENCE)
    assert not hold.is_lost
    assert set() == server_side.left_of(name)


def test_a_hold_that_is_released_beside_an_interrupted_upgrade_is_free(
    name: str, monkeypatch: pytest.MonkeyPatch, server_side: Observer
) -> None:
    """The release asked by the old token while the new one held, and then by the new one.

    The new one had been taken back by then.
    """
    hold = held(Threads(), Lock(name, mode="shared"))
    other = ReleasedMeanwhile(monkeypatch, hold, interrupts=True)

    async def given_up(plain: calls.Handler, *given: Any, **options: Any) -> Any:
        reply = await plain(*given, **options)
        other.goes_on.set()
        return reply

    calls.intercept(monkeypatch, "give_up", given_up)
    with pytest.raises(InterruptedError):
        hold.upgrade(wait=0)
    wait([other.release], PATIENCE)  # it may say that the hold is lost
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize("verb", ["begin_upgrade", "end_upgrade"])
def test_an_interrupted_upgrade_of_a_nested_block_leaves_the_outer_hold_as_it_was(
    name: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lock(name, mode="shared") as outer:
        leases.interrupt_after(monkeypatch, verb)
        with pytest.raises(InterruptedError), Lock(name):
            pass
        assert [("shared", outer.token)] == modes_of(name)
        outer.upgrade(wait=0)
        outer.downgrade()


def test_an_interrupt_is_raised_although_the_upgrade_cannot_be_undone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lock(name, mode="shared"):
        leases.interrupt_after(monkeypatch, "end_upgrade")
        calls.refuse(monkeypatch, "downgrade")
        with pytest.raises(InterruptedError), Lock(name, on_unavailable="proceed"):
            pass


def test_a_hold_that_is_extended_while_it_is_upgraded_is_not_lost(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(world, Lock(name, mode="shared"))
    outcome = meanwhile(world, monkeypatch, hold, "extend", 60.0)
    world.do(hold, "upgrade", wait=0)
    assert [None] == outcome
    assert [("exclusive", hold.token)] == modes_of(name)
    hold.check()
    assert hold.remaining > 30
    world.release(hold)


@pytest.mark.parametrize(
    ("verb", "args"), [("upgrade", ()), ("commit", ([("INCR", "x")],)), ("detach", ())]
)
def test_while_a_hold_is_upgraded_others_leave_it_alone(
    world: World, name: str, verb: str, args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(world, Lock(name, mode="shared"))
    outcome = meanwhile(world, monkeypatch, hold, verb, *args)
    world.do(hold, "upgrade", wait=0)
    assert "is being upgraded" in str(outcome[0])
    assert [("exclusive", hold.token)] == modes_of(name)
    world.release(hold)


@pytest.mark.parametrize("again", ["downgrade", "upgrade"])
def test_a_downgrade_of_which_nobody_heard_counts_as_shared_until_it_is_settled(
    world: World, name: str, again: str, monkeypatch: pytest.MonkeyPatch, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=2 * PATIENCE))
    with monkeypatch.context() as replies:
        calls.refuse(replies, "downgrade")
        with pytest.raises(LockBackendError):
            world.do(hold, "downgrade")
    assert "shared" == hold.mode
    assert [("exclusive", hold.token)] == modes_of(name)
    world.do(hold, again)
    assert [(hold.mode, hold.token)] == modes_of(name)
    assert ("shared" if again == "downgrade" else "exclusive") == hold.mode
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_a_downgrade_is_settled_before_the_hold_is_given_away(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(world, Lock(name, lease=2 * PATIENCE))
    with monkeypatch.context() as replies:
        calls.refuse(replies, "downgrade")
        with pytest.raises(LockBackendError):
            world.do(hold, "downgrade")
    adopted = Hold.adopt(world.do(hold, "detach"))
    assert [("shared", adopted.token)] == modes_of(name)
    adopted.upgrade(wait=0)
    adopted.release()


def test_an_upgrade_of_a_hold_that_was_revoked_says_so(world: World, name: str) -> None:
    hold = held(world, Lock(name, mode="shared"))
    inspection.force_release(name)
    other = held(world, Lock(name, mode="shared"))
    with pytest.raises(LockLost):
        world.do(hold, "upgrade", wait=None)
    assert hold.is_lost
    with pytest.raises(LockLost):
        world.release(hold)
    world.release(other)


@pytest.mark.parametrize("gone", ["force-released", "forgotten"])
def test_an_upgrade_that_waits_until_its_hold_is_gone_says_so(
    world: World, name: str, server_side: Observer, gone: str
) -> None:
    hold, other = (held(world, Lock(name, mode="shared")) for _ in range(2))
    upgrade = world.start(world.do, hold, "upgrade", wait=0.3)
    server_side.until_waiters(name, 1)
    if gone == "forgotten":
        server_side.client.delete(keys_of(name).sharers, keys_of(name).lock)
    else:
        inspection.force_release(name)
    with pytest.raises(LockLost):
        upgrade.result(PATIENCE)
    assert hold.is_lost
    for each in (hold, other):
        with pytest.raises(LockLost):
            world.release(each)
    assert set() == server_side.left_of(name)


def test_an_upgraded_hold_is_renewed(world: World, name: str, server_side: Observer) -> None:
    hold = held(world, Lock(name, mode="shared", lease=1.2))
    world.do(hold, "upgrade")
    end = monotonic() + hold.remaining
    until(lambda: monotonic() + hold.remaining > end + 0.1)
    assert not hold.is_lost
    world.release(hold)


def test_a_permit_is_neither_upgraded_nor_downgraded(world: World, name: str) -> None:
    hold = held(world, Semaphore(name, 2))
    for verb in ("upgrade", "downgrade"):
        with pytest.raises(TypeError, match="permit"):
            world.do(hold, verb)
    world.release(hold)
