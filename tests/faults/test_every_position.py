"""One story for each kind of lock, told once for each of its replies: that one is lost.

The command ran, its reply got lost: nothing happens twice, and nothing is reported as a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from redis_locks import Hold, Lock, LockError, Semaphore, inspection
from tests.contract.test_transit import adopt
from tests.faults.proxy import Proxy
from tests.support import stored
from tests.support.world import PATIENCE, Observer, World, held, in_line, keys_of, until

Make = Callable[[], Lock]

KINDS: dict[str, Callable[..., Lock]] = {
    "exclusive": Lock,
    "shared": lambda name, **options: Lock(name, mode="shared", **options),
    "set": lambda name, **options: Lock(name, f"{name}:b", f"{name}:c", **options),
    "semaphore": lambda name, read, **options: Semaphore(name, 1, **options),
}


def story(world: World, make: Make, rival: Lock, server_side: Observer) -> None:
    """Acquire, wait, extend, hand over, be refused, acquire again: nobody notices anything."""
    name = rival.name
    first = held(world, make())
    assert ([] if first.mode == "permit:1" else [0]) == [*first.read]
    waiter = in_line(world, rival, server_side)
    world.extend(first, 30)
    assert first.remaining > 20
    world.release(first)
    second = waiter.result(PATIENCE)
    assert second is not None
    assert world.acquire(make(), wait=0) is None
    world.release(second)
    third = held(world, make(), wait=0)
    assert first.fencing_token < second.fencing_token < third.fencing_token
    assert third.fencing_token == stored.fence(server_side.client, keys_of(name).lock)
    if third.mode == "shared":
        world.do(third, "upgrade", wait=0)
        world.do(third, "downgrade")
    world.release(third)
    assert not any(hold.is_lost for hold in (first, second, third))


def moving(world: World, make: Make, rival: Lock, server_side: Observer) -> None:
    """Give the hold away, adopt it, let somebody wait for it in vain, and commit."""
    name, url = rival.name, rival.options.using
    written = f"written:{name}"
    first = held(world, make())
    text = world.do(first, "detach")
    assert server_side.holder(name) not in {first.token, None}
    adopted: Hold = adopt(world, text, using=url)
    assert adopted.fencing_token >= first.fencing_token
    assert world.acquire(rival, wait=0.02) is None
    assert 0 == server_side.waiters(name)
    world.do(adopted, "commit", [("INCR", written), ("PEXPIRE", written, 60_000)])
    assert b"1" == server_side.client.getdel(written)
    assert not adopted.is_lost


def operated_on(world: World, make: Make, rival: Lock, server_side: Observer) -> None:
    """An operator cancels a wait, and force-releases the hold."""
    name, url = rival.name, rival.options.using
    hold = held(world, make())
    waiter = in_line(world, rival, server_side, wait=None)
    info = inspection.lock(name, using=url)
    assert info is not None
    assert inspection.cancel(info.waiters[0], using=url)
    with pytest.raises(LockError, match="cancelled by an operator"):
        waiter.result(PATIENCE)
    released = inspection.force_release(name, using=url)
    assert 1 == released.ended
    until(lambda: hold.is_lost)
    successor = held(world, rival)
    assert hold.fencing_token < released.fencing_token < successor.fencing_token
    world.release(successor)


@pytest.mark.parametrize("losses", [1, pytest.param(2, marks=pytest.mark.ci)])
@pytest.mark.parametrize(
    ("tell", "kind"),
    [
        *((story, kind) for kind in KINDS),
        *((moving, kind) for kind in ("exclusive", "set")),
        (operated_on, "exclusive"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_whichever_reply_is_lost_the_story_is_the_same(
    world: World,
    name: str,
    proxy: Proxy,
    server_side: Observer,
    tell: Callable[[World, Make, Lock, Observer], None],
    kind: str,
    losses: int,
) -> None:
    options = {"using": proxy.url, "lease": 60, "read": [("STRLEN", name)]}
    make, rival = (lambda: KINDS[kind](name, **options)), Lock(name, **options)
    for position in count(1):
        proxy.lose(position, losses=losses)
        tell(world, make, rival, server_side)
        if not proxy.lost:
            break
    assert position > 5
