"""The two lock classes: redis-py's own, with another way to wait and to release."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Literal, Self

import redis
import redis.asyncio as aioredis
from redis.asyncio.lock import Lock as AsyncRedisLock
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock as RedisLock

from redis_locks.compat import commands, waiters, wakeups
from redis_locks.compat.client_errors import errors_of, server_errors
from redis_locks.compat.commands import CompatRequest
from redis_locks.connections.client_twins import is_other_cluster
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.locks.timeouts import bounded
from redis_locks.protocol.callers import new_token
from redis_locks.values.keys import CompatKeys, compat_keys

_CLUSTERS = (redis.RedisCluster, aioredis.RedisCluster)


class _Local(threading.local):
    """redis-py's thread-local token. In a thread that never acquired it is None, not missing."""

    token: bytes | None = None


class _Queueing:
    """What both classes add to redis-py's classes."""

    redis: Any
    name: Any
    timeout: float | None
    sleep: float
    blocking: bool
    blocking_timeout: float | None
    local: Any

    def __init__(
        self,
        redis: Any,
        name: str | bytes | memoryview,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,  # noqa: FBT001, FBT002 - redis-py's
        blocking_timeout: float | None = None,
        thread_local: bool = True,  # noqa: FBT001, FBT002 - redis-py's
        raise_on_release_error: bool = True,  # noqa: FBT001, FBT002 - redis-py's
    ) -> None:
        arguments: Any = (redis, name, timeout, sleep, blocking, blocking_timeout, thread_local)
        # Not said unless it matters: redis-py 5.2 has no such argument.
        unusual = {} if raise_on_release_error else {"raise_on_release_error": False}
        super().__init__(*arguments, **unusual)
        if thread_local:
            self.local = _Local()

    def _encode(self, value: Any) -> bytes:
        client = self.redis
        encoder = getattr(client, "connection_pool", client).get_encoder()
        return bytes(encoder.encode(value))

    def _keys(self) -> CompatKeys:
        in_cluster = isinstance(self.redis, _CLUSTERS) or is_other_cluster(self.redis)
        return compat_keys(self._encode(self.name), cluster=in_cluster)

    def _request(self, token: str | bytes | None) -> CompatRequest:
        waiter = new_token().encode()
        return CompatRequest(
            self.redis,
            self._keys(),
            waiter if token is None else self._encode(token),
            waiter,
            b"%d" % int(self.timeout * 1000) if self.timeout else b"",
        )

    def _wait(
        self, sleep: float, *, blocking: bool | None, blocking_timeout: float | None
    ) -> float | None:
        """Return how long to wait, as `waiters.acquire` takes it."""
        if blocking is None:
            blocking = self.blocking
        if blocking_timeout is None:
            blocking_timeout = self.blocking_timeout
        if not blocking:
            return 0
        # As in redis-py: there is no second try, because it would come too late, after `sleep`.
        if blocking_timeout is not None and sleep > blocking_timeout:
            return 0
        return bounded(blocking_timeout)

    async def _acquire(
        self, driver: Driver, request: CompatRequest, wait: float | None, sleep: float
    ) -> bool:
        before = self.local.token
        try:
            acquired = await waiters.acquire(driver, request, wait, sleep)
            if acquired:
                self.local.token = request.token
        except BaseException:
            self.local.token = before
            await waiters.give_up(driver, request)
            raise
        return acquired

    async def _extend(
        self, seconds: float, *, replace: bool, verb: str = "extend"
    ) -> Literal[True]:
        milliseconds, token = int(seconds * 1000), self._encode(self.local.token)
        extended = await commands.extend(
            self.redis, self._keys(), token, milliseconds, replace=replace
        )
        if extended == commands.NOT_OWNED:
            raise LockNotOwnedError(
                f"Cannot {verb} a lock that's no longer owned", lock_name=self.name
            )
        if extended != commands.EXTENDED:
            given = f"{seconds!r}, replace_ttl=True" if replace else repr(seconds)
            msg = (
                f"extend({given}) would end lock {self.name!r}, and let others in: leave time, or "
                "call release()"
            )
            raise LockError(msg, lock_name=self.name)
        return True

    async def _reacquire(self) -> Literal[True]:
        self._require_timeout()
        return await self._extend(self.timeout or 0, replace=True, verb="reacquire")

    def _require_timeout(self) -> None:
        if int((self.timeout or 0) * 1000) <= 0:
            msg = (
                f"Lock {self.name!r} has timeout={self.timeout!r}: to set its end anew would end "
                "it now, and let others in. Give it a timeout above 0"
            )
            raise LockError(msg, lock_name=self.name)

    async def _release(self, expected_token: Any) -> None:
        token = self._encode(expected_token)
        if not await commands.release(self.redis, self._keys(), token):
            raise LockNotOwnedError(
                "Cannot release a lock that's no longer owned", lock_name=self.name
            )
        if self.local.token == token:
            self.local.token = None


class Lock(_Queueing, RedisLock):
    """redis-py's `Lock`, with a queue.

    It does all that redis-py documents of its `Lock`. The differences:

    - Waiters of this class get the lock in arrival order, and the release notifies the first one.
    - The lock may end without a notification, by redis-py's own release or by its `timeout`. The
      first waiter notices within 0.1 s, even if `sleep` is longer. A shorter `sleep` counts, down
      to 0.01 s.
    - An interrupted acquire almost never leaves the lock behind. Give it a `timeout`: without one,
      what is left stays for ever. An interrupted release almost always releases. A release that
      failed, say because the server did not answer, can be called again.
    - `redis_locks.lock_timeout` and `redis_locks.lock_deadline` bound its waits as
      `blocking_timeout` does.
    - No call but `release` ends a lock. `extend` and `reacquire` with a time of 0 or less raise
      LockError; redis-py deletes the key, and returns True.
    - A thread that did not acquire a `thread_local` lock does not own it; redis-py raises
      AttributeError.
    """

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,  # noqa: FBT001 - redis-py's
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock; True once it is held, False if it was not available in time.

        Args:
            sleep: Seconds after which to ask the server again, 0.1 at most. If it is longer than
                `blocking_timeout`, there is time for a single try.
            blocking: Whether to wait; None: as the lock says.
            blocking_timeout: The longest wait in seconds; None: as the lock says, where None is for
                ever. `lock_timeout` and `lock_deadline` may make it shorter.
            token: The key's value while the lock is held; None makes a unique one.

        Raises:
            redis.exceptions.RedisError: The server could not be asked, or refused.
        """
        if sleep is None:
            sleep = self.sleep
        request = self._request(token)
        wait = self._wait(sleep, blocking=blocking, blocking_timeout=blocking_timeout)
        return run_blocking(self._acquire(wakeups.driver_of(self.redis), request, wait, sleep))

    def release(self) -> None:
        """Release the lock and hand it to the first waiter.

        Raises:
            redis.exceptions.LockNotOwnedError: The `timeout` had passed, or somebody deleted the
                key.
            redis.exceptions.LockError: This lock, or this thread, does not hold it.
            redis.exceptions.RedisError: The server could not be asked; call again.
        """
        token = self.local.token
        try:
            with errors_of(self.redis):
                super().release()
        except LockError:
            raise
        except BaseException as error:
            self.local.token = token
            if not isinstance(error, Exception):
                # Interrupted, perhaps before the release had begun.
                with suppress(*server_errors()):
                    self.do_release(token)
            raise

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:  # noqa: FBT001, FBT002 - redis-py's
        """Change when the lock ends, as `do_extend`.

        Raises LockError if this lock, or this thread, does not hold it.
        """
        with errors_of(self.redis):
            super().extend(additional_time, replace_ttl)
        return True

    def reacquire(self) -> Literal[True]:
        """Let the lock end after its `timeout` from now.

        Raises LockError as `extend` does, and if it has no timeout.
        """
        with errors_of(self.redis):
            super().reacquire()
        return True

    def __enter__(self) -> Self:
        """Acquire the lock; raises LockError if it was not available in time."""
        with errors_of(self.redis):
            super().__enter__()
        return self

    def do_release(self, expected_token: Any) -> None:
        """Release the lock if its value is `expected_token`, else raise LockNotOwnedError."""
        run_blocking(self._release(expected_token))

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:  # noqa: FBT001 - redis-py's
        """Change when the lock ends.

        Raises LockError if it would end now, and then changes nothing.
        """
        return run_blocking(self._extend(additional_time, replace=replace_ttl))

    def do_reacquire(self) -> Literal[True]:
        """Let the lock end after its `timeout` from now; raises LockError if it has none."""
        return run_blocking(self._reacquire())


class AsyncLock(_Queueing, AsyncRedisLock):
    """redis-py's `redis.asyncio.lock.Lock`, with a queue; it differs as `Lock` does.

    If an acquire or a release is cancelled, it waits for the reply to its present command first.
    """

    async def acquire(
        self,
        blocking: bool | None = None,  # noqa: FBT001 - redis-py's
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock; see `Lock.acquire`."""
        request = self._request(token)
        wait = self._wait(self.sleep, blocking=blocking, blocking_timeout=blocking_timeout)
        driver = await wakeups.loop_driver_of(self.redis)
        return await self._acquire(driver, request, wait, self.sleep)

    async def release(self) -> None:
        """Release the lock and hand it to the first waiter; see `Lock.release`."""
        token = self.local.token
        try:
            with errors_of(self.redis):
                await super().release()
        except LockError:
            raise
        except Exception:
            self.local.token = token  # redis-py 5 forgets it before it asks the server
            raise

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:  # noqa: FBT001, FBT002 - redis-py's
        """Change when the lock ends; see `Lock.extend`."""
        with errors_of(self.redis):
            await super().extend(additional_time, replace_ttl)
        return True

    async def reacquire(self) -> Literal[True]:
        """Let the lock end after its `timeout` from now; see `Lock.reacquire`."""
        with errors_of(self.redis):
            await super().reacquire()
        return True

    async def __aenter__(self) -> Self:
        """Acquire the lock; raises LockError if it was not available in time."""
        with errors_of(self.redis):
            await super().__aenter__()  # type: ignore[no-untyped-call]
        return self

    async def do_release(self, expected_token: Any) -> None:
        """Release the lock if its value is `expected_token`, else raise LockNotOwnedError."""
        driver = await wakeups.loop_driver_of(self.redis)
        await driver.finish(self._release(expected_token))

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:  # noqa: FBT001 - redis-py's
        """Change when the lock ends; see `Lock.do_extend`."""
        return await self._extend(additional_time, replace=replace_ttl)

    async def do_reacquire(self) -> Literal[True]:
        """Let the lock end after its `timeout` from now; see `Lock.do_reacquire`."""
        return await self._reacquire()
