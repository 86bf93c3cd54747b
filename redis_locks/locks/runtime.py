"""The two worlds in which one core runs: blocking code and event loops."""

from __future__ import annotations

from dataclasses import dataclass

from redis_locks.connections import backends
from redis_locks.connections.backends import Backend, backend_for
from redis_locks.drivers.base import Driver
from redis_locks.protocol.renewal.renewer import Renewer
from redis_locks.values.identity import Session, session


@dataclass(slots=True, eq=False)
class Side:
    """The blocking or the asyncio side of a backend, and who is on it."""

    backend: Backend
    driver: Driver
    renewer: Renewer
    task: bool
    session: Session
    """This thread, or the running task, when it began to ask."""

    @classmethod
    def blocking(cls, using: str | None) -> Side:
        """Return the side of threads."""
        backend = backends.known.get(using) or backend_for(using)
        return cls(
            backend, backend.driver, backend.renewer, task=False, session=session(task=False)
        )

    @classmethod
    async def of_loop(cls, using: str | None) -> Side:
        """Return the side of the running event loop."""
        backend = backend_for(using)
        return cls(backend, *await backend.of_loop(), task=True, session=session(task=True))
