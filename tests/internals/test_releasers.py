"""Who has begun to release a hold, and was interrupted, does not keep others from releasing it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from django.test import override_settings

from redis_locks import Lock, LockBackendError
from tests.faults.proxy import Proxy
from tests.support.world import PATIENCE, Observer, Threads, granted, held


class Interrupted(dict[Any, Any]):
    """Who releases a hold; it is interrupted once it is noted, and so is what goes on then."""

    def setdefault(self, place: Any, releaser: Any = None) -> Any:
        noted = super().setdefault(place, releaser)
        if self.left:
            self.left -= 1
            raise KeyboardInterrupt
        return noted

    left = 2


def test_after_an_interrupt_another_thread_releases(name: str, server_side: Observer) -> None:
    hold = granted(Lock(name, lease=60).acquire())
    hold.releaser = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        hold.release()
    assert server_side.holder(name)
    Threads().start(hold.release).result(PATIENCE)
    assert not server_side.holder(name)
    assert hold.released


def test_after_an_interrupt_before_it_goes_on_another_thread_releases(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(coroutine: Coroutine[Any, Any, None]) -> None:
        coroutine.close()
        raise KeyboardInterrupt

    hold = granted(Lock(name, lease=60).acquire())
    hold.backend.driver.drop_idle()  # so it does not end at once
    with monkeypatch.context() as patched:
        patched.setattr("redis_locks.locks.hold.run_blocking", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hold.release()
    assert server_side.holder(name)
    Threads().start(hold.release).result(PATIENCE)
    assert hold.released
    assert not server_side.holder(name)


class Overtaken(dict[Any, Any]):
    """Who releases a hold; just before that is noted, something else happens."""

    def __init__(self, before: Callable[[], object]) -> None:
        self.before = [before]

    def setdefault(self, place: Any, releaser: Any = None) -> Any:
        while self.before:
            self.before.pop()()
        return super().setdefault(place, releaser)


def test_who_was_overtaken_by_another_thread_takes_its_lost_release_for_no_loss(
    name: str, proxy: Proxy, server_side: Observer
) -> None:
    threads = Threads()

    def fail() -> None:
        """Release it in another thread, which never hears of that."""
        proxy.lose(1, losses=10**9)
        with pytest.raises(LockBackendError):
            threads.start(hold.release).result(PATIENCE)
        proxy.lose(0)

    settings = {"REPLY_TIMEOUT": 0.3, "RELEASE_TIMEOUT": 0.3, "STATISTICS": False}
    with override_settings(REDIS_LOCKS=settings):
        hold = held(threads, Lock(name, using=proxy.url, renew=False, lease=60))
        hold.releaser = Overtaken(fail)
        hold.release()
    assert hold.released
    assert not hold.is_lost
    assert set() == server_side.left_of(name)
