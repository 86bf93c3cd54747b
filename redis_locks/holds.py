"""`Hold`: one possession of a lock, to check, extend and release."""

from __future__ import annotations

from typing import Any

from redis_locks import commits, express, store
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.exceptions import LockError
from redis_locks.leases import Lease, tell, tell_lost
from redis_locks.transit import Movable


class Hold(Movable):
    """One possession of a lock. Single use; may be passed to and released by another thread."""

    __slots__ = ()

    def commit(self, pipe: Any) -> None:
        """Apply the commands queued in a redis-py pipeline and release, in one step on the server.

        If this hold is lost, no command is applied: so data in the lock's own Redis is safe
        even from a holder that was stopped past its lease. One round trip. When a command fails,
        one that does not exist as well, the others are still applied. Their replies are not returned; `pipe` is
        emptied. On a cluster all keys must be in the lock's slot; see `key_beside`.

        Raises:
            LockLost: The hold is lost; nothing was applied.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; it may have been applied or not.
            redis.exceptions.ResponseError: A command failed; the lock is released.
            LockError: A transaction keeps the hold, or it has others nested with it.
            TypeError: `pipe` is no pipeline.
            ValueError: `pipe` belongs to another server, database or cluster, watches keys, or has a
                command that cannot be part of a script, or is for another slot than the lock's.
        """
        if not self._commit_promptly(pipe):
            run_blocking(self._commit(self._backend.driver, pipe))

    async def acommit(self, pipe: Any) -> None:
        """Apply the commands of a redis.asyncio pipeline and release; see `commit`."""
        driver, _ = await self._backend.of_loop()
        await self._commit(driver, pipe)

    def _commit_promptly(self, pipe: Any) -> bool:
        """Commit as `_commit` does, if nothing is out of the ordinary; whether it is done."""
        queued, prompt = commits.queue_of(pipe), self._backend.prompt
        if prompt is None or queued.watches or queued.server != prompt.description:
            return False
        commands = commits.commands_of(queued)
        lease = self._leave_promptly()
        if lease is None:
            return False
        failure = express.commit(prompt, lease, commands, self._tenure.end)
        if failure is None:
            run_blocking(self._apply(self._backend.driver, lease, commands, queued))
            return True
        queued.empty()
        held = self._told_released(lease)
        if held is not None:
            run_blocking(tell(prompt, "released", lease, held=held))
        if failure:
            raise _command_failed(failure)
        return True

    async def _commit(self, driver: Driver, pipe: Any) -> None:
        tenure = self._tenure
        self._require_committable()
        queued = commits.queue_of(pipe)
        await commits.require(queued, driver, tenure.lease.keys)
        commands = commits.commands_of(queued)
        lease = tenure.lease
        if lease.is_over():
            raise self._lost()
        if lease.line is not None:
            await self._restate(driver)
            lease = tenure.lease
            # Before it is sent: once it may have been applied, the hold must not pass on.
            lease.leave_line()
        self._require_held()  # another thread may have released it meanwhile
        # From here on a renewal that finds nothing is no loss.
        lease.ended = True
        await self._apply(driver, lease, commands, queued)

    async def _apply(
        self, driver: Driver, lease: Lease, commands: commits.Commands, queued: commits.Queued
    ) -> None:
        """Run the commands and end the hold, as long as its lease lasts, and tell what came of it."""
        failure, _ = await self._persist(
            driver, lambda link: store.commit(link, lease.keys, lease.token, commands)
        )
        if failure is None:
            lease.lost = True
            await tell_lost(driver, lease)
            raise self._lost()
        self._tenure.leave(self)
        self._tenure.renewer.discard(lease)
        held = self._told_released(lease)
        emptied = queued.empty()
        if emptied is not None:
            await emptied
        if held is not None:
            await tell(driver, "released", lease, held=held)
        if failure:
            raise _command_failed(failure)

    def _require_committable(self) -> None:
        self._require_held()
        if self.kept:
            msg = (
                f"Lock {self.name!r} is kept until its transaction ends; commit(pipe) would release "
                "it before: take it with scope='block', or send the commands by themselves"
            )
            raise LockError(msg)
        if self._tenure.is_shared:
            self._require_alone("commit(pipe)")


def _command_failed(failure: str) -> Exception:
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis.exceptions import ResponseError

    return ResponseError(failure)
