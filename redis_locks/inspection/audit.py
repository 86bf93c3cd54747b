"""Lines in the log for what an operator ends.

They say who ends which holds and waits, why, and what became of it.
"""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

from redis_locks import inspection
from redis_locks.connections.backends import backend_for
from redis_locks.inspection import HolderInfo, Parties, WaiterInfo
from redis_locks.values.text import printable

logger = logging.getLogger("redis_locks.audit")

Party = TypeVar("Party", HolderInfo, WaiterInfo)

Action = Literal["force-released", "cancelled", "drained"]

_PLANS: dict[Action, str] = {
    "force-released": "force-releases",
    "cancelled": "cancels the waits for",
    "drained": "drains",
}


def operator() -> str:
    """Return who runs this process, as for a command line: user and host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user needs no name
        user = "unknown"
    return f"{user} on {socket.gethostname()}"


@dataclass(frozen=True)
class Deed:
    """What an operator does, of which each step is a line in the log.

    The record has each part as an attribute of its own. The attribute `outcome` is "begun", and
    then "done", "nothing" or "unknown". An unknown outcome is a WARNING, all others are at level
    INFO.

    Attributes:
        by: The operator.
        reason: Why; may be empty.
        using: The server, as for `inspection.locks`.
    """

    by: str
    reason: str
    using: str | None = None

    def force_release(
        self, lock: str, holders: Sequence[HolderInfo]
    ) -> tuple[list[HolderInfo], int]:
        """End these holds; return those that it ended, and `ForceReleased.fencing_token`.

        Raises as `force_release`.
        """
        with self._ending("force-released", lock, holders) as ended:
            tokens = [holder.token for holder in holders]
            released = inspection.force_release(lock, using=self.using, tokens=tokens)
            ended += [holder for holder in holders if holder.token in released.tokens]
        return ended, released.fencing_token

    def cancel(self, lock: str, waiters: Sequence[WaiterInfo]) -> list[WaiterInfo]:
        """Cancel these waits, and return those that it ended. Raises as `cancel`."""
        with self._ending("cancelled", lock, waiters) as ended:
            for waiter in waiters:
                if inspection.cancel(waiter, using=self.using):
                    ended.append(waiter)  # one by one, for the next one may fail
        return ended

    def drain(self, host: str) -> Parties:
        """End all holds and waits of a host, and return them. Raises as `drain`."""
        what = f"host '{printable(host)}'"
        self._log("begun", "drained", what, "", ())
        try:
            ended = inspection.drain(host, using=self.using)
        except BaseException as error:
            self._log("unknown", "drained", what, "", (), error)
            raise
        self._log("done", "drained", what, "", ())
        for holder in ended.holders:
            self._ended("force-released", holder.lock, [holder])
        for waiter in ended.waiters:
            self._ended("cancelled", waiter.lock, [waiter])
        return ended

    @contextmanager
    def _ending(self, action: Action, lock: str, parties: Sequence[Party]) -> Iterator[list[Party]]:
        """Log that holds or waits of a lock are to be ended.

        Log after the block what became of it, whatever happens.

        Yields a list. The block adds to it those of the `parties` whose holds or waits it ended.
        """
        what = f"lock '{printable(lock)}'"
        self._log("begun", action, what, lock, parties)
        ended: list[Party] = []
        try:
            yield ended
        except BaseException as error:
            if ended:
                self._ended(action, lock, ended)
            left = [party for party in parties if party not in ended]
            self._log("unknown", action, what, lock, left, error)
            raise
        if ended:
            self._ended(action, lock, ended)
        else:
            self._log("nothing", action, what, lock, parties)

    def _ended(self, action: Action, lock: str, parties: Sequence[Party]) -> None:
        self._log("done", action, f"lock '{printable(lock)}'", lock, parties)

    def _log(
        self,
        outcome: Literal["begun", "done", "nothing", "unknown"],
        action: Action,
        what: str,
        lock: str,
        parties: Sequence[Party],
        error: BaseException | None = None,
    ) -> None:
        whose = f" of {printable('; '.join(map(str, parties)))}" if parties else ""
        told = {
            "begun": f"{_PLANS[action]} {what}{whose}",
            "done": f"{action} {what}{whose}",
            "nothing": f"{action} nothing of {what}: what was to be ended{whose} had ended",
            "unknown": f"may have {action} {what}{whose}, or not: {printable(repr(error))}",
        }[outcome]
        server = self.using or "default"
        if "://" in server:
            server = backend_for(server).description  # without the password
        where = f" on server {printable(server)!r}" if self.using else ""
        logger.log(
            logging.WARNING if outcome == "unknown" else logging.INFO,
            "%s %s%s. Reason: %s",
            printable(self.by),
            told,
            where,
            printable(self.reason) or "not given",
            extra={
                "operator": self.by,
                "action": action,
                "outcome": outcome,
                "lock": lock,
                "parties": [str(party) for party in parties],
                "reason": self.reason,
                "server": server,
            },
        )
