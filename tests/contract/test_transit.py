"""A hold that is given away as text and goes on in another thread, task or process."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest
from django.core import signing
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from redis_locks import Hold, Lock, LockError, LockLost, LockNotHeld, Semaphore, inspection
from tests.support import calls, leases, stored, transit
from tests.support.world import (
    PATIENCE,
    Observer,
    Tasks,
    World,
    existing,
    granted,
    held,
    keys_of,
    until,
)

KEY = "SECRET_KEY"

of_every_kind = pytest.mark.parametrize(
    "made",
    [
        Lock,
        lambda name: Lock(name, mode="shared"),
        lambda name: Lock(name, f"{name}:more"),
        lambda name: Semaphore(name, 3),
    ],
    ids=["exclusive", "shared", "set", "permit"],
)


def adopt(world: World, text: str, **options: Any) -> Hold:
    if isinstance(world, Tasks):
        return world.run(Hold.aadopt(text, **options))
    return Hold.adopt(text, **options)


@of_every_kind
def test_the_same_hold_goes_on_under_another_token(
    world: World, name: str, made: Any, server_side: Observer
) -> None:
    hold = held(world, made(name))
    text = world.do(hold, "detach")
    adopted = adopt(world, text, label="the worker")
    assert (hold.fencing_token, hold.mode) == (adopted.fencing_token, adopted.mode)
    assert hold.token != adopted.token
    info = existing(name)
    assert [(adopted.token, "the worker")] == [(h.token, h.label) for h in info.holders]
    assert world.acquire(Lock(name), wait=0) is None
    world.extend(adopted, 60)
    until(lambda: adopted.remaining > 25)  # at once, unless a renewal's answer comes late
    world.release(adopted)
    assert set() == server_side.left_of(name) - {"index"}


def test_who_adopts_never_believes_in_the_lease_longer_than_the_server_does(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    async def slow(plain: calls.Handler, *args: Any) -> Any:
        asked.append(monotonic())
        adopted = await plain(*args)
        until(lambda: monotonic() > asked[-1] + 0.1)
        return adopted

    text = world.do(held(world, Lock(name, lease=30)), "detach")
    calls.intercept(monkeypatch, "adopt", slow)
    adopted = adopt(world, text, renew=False)
    assert leases.ends_at(adopted) <= asked[0] + 30
    world.release(adopted)


def test_what_was_given_away_is_no_hold_any_more(world: World, name: str, hold: Hold) -> None:
    text = world.do(hold, "detach")
    world.release(hold)  # nothing to do
    assert (0.0, False) == (hold.remaining, hold.is_lost)
    for verb, arguments in (("extend", [5]), ("detach", [])):
        with pytest.raises(LockNotHeld):
            world.do(hold, verb, *arguments)
    with pytest.raises(LockNotHeld):
        hold.check()
    assert world.acquire(Lock(name), wait=0) is None
    world.release(adopt(world, text))


def test_one_adopts_it_and_the_others_are_told(world: World, name: str) -> None:
    text = world.do(held(world, Lock(name)), "detach")
    adopted = adopt(world, text)
    with pytest.raises(LockLost, match="adopted already"):
        adopt(world, text)
    world.release(adopted)
    with pytest.raises(LockLost):
        adopt(world, text)


def test_lost_on_its_way_it_ends_with_its_lease_and_is_not_renewed(world: World, name: str) -> None:
    text = world.do(held(world, Lock(name, lease=0.2)), "detach", lease=0.4)
    successor = held(world, Lock(name), wait=PATIENCE)
    with pytest.raises(LockLost):
        adopt(world, text)
    world.release(successor)


def test_adopted_it_is_renewed(world: World, name: str) -> None:
    text = world.do(held(world, Lock(name, lease=0.9)), "detach", lease=2)
    adopted = adopt(world, text)
    leases.until_renewed(adopted)
    world.release(adopted)


def test_it_is_the_adopters_own_and_can_be_taken_again(name: str) -> None:
    lock = Lock(name, wait=0)
    with Hold.adopt(lock.acquire().detach()) as adopted, lock as nested:  # type: ignore[union-attr]
        assert adopted.token == nested.token
        with pytest.raises(LockError, match="nested"):
            adopted.detach()
    assert adopted.remaining == 0


def test_in_transit_it_belongs_to_no_session_but_says_who_gave_it_away(
    world: World, name: str
) -> None:
    hold = held(world, Lock(name, label="the giver"))
    text = world.do(hold, "detach")
    info = existing(name)
    (holder,) = info.holders
    assert "the giver" == holder.label
    assert holder.session != hold.token.partition(".")[0]
    world.release(adopt(world, text))


@pytest.mark.parametrize("seen_by", ["itself", "others"])
def test_in_transit_it_is_nobodys_and_no_part_of_a_deadlock(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch, seen_by: str
) -> None:
    """Who gave it away waits for somebody who waits for it: a third one may release it."""
    if seen_by == "others":  # who look for a deadlock know nothing of this process's tokens
        calls.look_as_others_do(monkeypatch)
    one, other = Lock(f"{name}:1"), Lock(f"{name}:2", wait=PATIENCE)
    texts: list[str] = []

    def giver() -> None:
        hold = granted(one.acquire(wait=0))
        texts.append(hold.detach())
        until(lambda: getattr(inspection.lock(f"{name}:1"), "waiting", 0))
        with other:
            pass

    def taker() -> None:
        with other:
            until(lambda: texts)
            with Lock(f"{name}:1", wait=PATIENCE):
                pass

    with ThreadPoolExecutor(2) as pool:
        parties = [pool.submit(taker), pool.submit(giver)]
        server_side.until_waiters(f"{name}:2", 1)
        server_side.client.delete("redis_locks{0}:waits")
        # The one that holds something has looked for a deadlock since then, and neither was ended.
        until(lambda: server_side.noted(name) or any(each.done() for each in parties))
        assert [False, False] == [each.done() for each in parties]
        Hold.adopt(texts[0]).release()
        assert [None, None] == [each.result(PATIENCE) for each in parties]


def test_the_other_process_may_be_any(name: str, server_side: Observer) -> None:
    """The one that took it is killed; the one that adopted it holds on."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, Lock(name).acquire().detach().encode())  # type: ignore[union-attr]
            signal.pause()
        finally:
            os._exit(1)
    text = os.read(read, 10_000).decode()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with Hold.adopt(text) as adopted:
        assert adopted.token == server_side.holder(name)


def test_a_hold_that_is_lost_cannot_be_given_away(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=60))
    stored.drop_holder(server_side.client, keys_of(name).lock)
    for _ in range(2):
        with pytest.raises(LockLost):
            world.do(hold, "detach")
    assert server_side.holder(name) is None
    assert hold.is_lost


def test_cancelled_while_it_is_given_away_it_is_still_this_hold(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    async def cancelled_after(turns: int) -> bool:
        hold = granted(await Lock(name, lease=30).aacquire(wait=0))
        giving = asyncio.create_task(hold.adetach())
        for _ in range(turns):  # of the loop: sometimes too few for the round trip
            await asyncio.sleep(0)
        giving.cancel()
        try:
            hold = await Hold.aadopt(await giving)
        except asyncio.CancelledError:
            hold.check()
        assert hold.token == server_side.holder(name)
        await hold.arelease()
        return giving.cancelled()

    turns = [*range(10), *range(10, 200, 10), 100_000]
    outcomes = [tasks.run(cancelled_after(each)) for each in turns]
    assert {True, False} == set(outcomes)


def test_without_a_secret_key_nothing_happens(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch, hold: Hold
) -> None:
    calls.forbid(monkeypatch, "adopt")  # so that asking for it is another error
    with override_settings(**{KEY: ""}), pytest.raises(ImproperlyConfigured, match=KEY):
        world.do(hold, "detach")
    assert hold.token == server_side.holder(name)
    world.release(hold)


def test_interrupted_while_its_text_is_made_it_is_still_this_hold(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch, hold: Hold
) -> None:

    def interrupted() -> None:
        if server_side.holder(name) != hold.token:
            raise InterruptedError

    transit.interrupt_text(monkeypatch, interrupted)
    with pytest.raises(InterruptedError):
        world.do(hold, "detach")
    assert hold.token == server_side.holder(name)
    world.extend(hold, 30)
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_what_cannot_be_given_away_says_so(name: str, transactional_db: None) -> None:
    from django.db.transaction import atomic

    with atomic():
        hold = granted(Lock(name).acquire(wait=0))
        with pytest.raises(LockError, match="scope='block'"):
            hold.detach()
        assert hold.remaining


def test_text_that_is_not_ours_is_refused() -> None:
    for text in ("", "x", "a:b:c", "\ud800:a:b", signing.dumps({"names": ["a"]})):
        with pytest.raises(ValueError, match=r"not what Hold\.detach"):
            Hold.adopt(text)


def test_another_secret_key_is_refused_and_an_old_one_is_not(name: str) -> None:
    with override_settings(**{KEY: "old"}):
        text = Lock(name).acquire(wait=0).detach()  # type: ignore[union-attr]
    with override_settings(**{KEY: "new"}), pytest.raises(ValueError, match="SECRET_KEY"):
        Hold.adopt(text)
    with override_settings(**{KEY: "new", f"{KEY}_FALLBACKS": ["old"]}):
        Hold.adopt(text).release()


def test_text_older_than_its_lease_is_refused_unasked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Lock(name).acquire(wait=0).detach()  # type: ignore[union-attr]
    now = signing.time.time()
    monkeypatch.setattr(signing.time, "time", lambda: now + 100)
    with pytest.raises(LockLost, match=r"within its lease of 10 s"):
        Hold.adopt(text)
    monkeypatch.undo()
    Hold.adopt(text).release()
    assert "token" in signing.loads(text, salt=transit.SALT)
