"""`Hold`: one possession of a lock, to check, extend and release."""

from __future__ import annotations

from typing import Any

from redis_locks import commits, express, store
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.exceptions import LockError, LockNotHeld
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
            LockNotHeld: It was released, or is being ended by another thread, or belongs to another process.
            LockBackendError: Redis could not be asked; it may have been applied or not.
            redis.exceptions.ResponseError: A command failed; the lock is released.
            LockError: A transaction keeps the hold, or it has others nested with it; or a commit of other commands
                was begun, and nobody knows whether it was applied.
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
        prompt = self._backend.prompt
        if prompt is None or self._tenure.lease.line is not None:
            return False
        try:
            queued = commits.queue_of(pipe)
            if queued.watches or queued.server != prompt.description:
                return False
            commands = commits.commands_of(queued)
        except Exception:
            self._require_committable()  # first what is wrong with the hold
            raise
        lease = self._leave_promptly()
        if lease is None:
            return False
        lease.commands = commands
        failure = express.commit(prompt, lease, commands, self._tenure.end)
        if failure is None:
            run_blocking(self._apply(self._backend.driver, lease, queued))
            return True
        self._released = True
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
        self._begin_commit(lease, commands)
        prompt = self._backend.prompt
        failure = None
        if prompt is not None and not driver.suspends:
            failure = express.commit(prompt, lease, commands)
        await self._apply(driver, lease, queued, failure)

    async def _apply(
        self, driver: Driver, lease: Lease, queued: commits.Queued, failure: str | None = None
    ) -> None:
        """Run the lease's commands and end the hold, unless it is known what came of that, and tell it.

        It tries as long as the lease lasts. `failure` as `store.commit` returns it.
        """
        if failure is None:
            commands = lease.commands or ()
            failure, _ = await self._persist(
                driver, lambda link: store.commit(link, lease.keys, lease.token, commands)
            )
        if failure is None:
            lease.lost = True
            await tell_lost(driver, lease)
            raise self._lost()
        self._released = True
        self._tenure.leave(self)
        self._tenure.renewer.discard(lease)
        emptied = queued.empty()
        if emptied is not None:
            await emptied
        held = self._told_released(lease)
        if held is not None:
            await tell(driver, "released", lease, held=held)
        if failure:
            raise _command_failed(failure)

    def _begin_commit(self, lease: Lease, commands: commits.Commands) -> None:
        """Let the hold end with these commands, and no others, from now on."""
        if lease.commands is None:
            if not self._tenure.leave_alone(self):
                msg = (
                    f"The end of this hold of lock {self.name!r} has begun already, by another thread or by a release "
                    "that failed; acquire the lock again"
                )
                raise LockNotHeld(msg)
        elif lease.commands != commands:
            msg = (
                f"A commit of lock {self.name!r} was begun already, and may have been applied; commit the same commands "
                "again to be sure, or others with a new hold"
            )
            raise LockError(msg)
        # From here on a renewal that finds nothing is no loss.
        lease.ended, lease.commands = True, commands

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
