"""The errors, one tree.

::

    LockError
    ├── LockNotAvailable     contention, and the caller did not want to wait  (55P03)
    │   ├── LockTimeout      contention for longer than the caller would wait (55P03)
    │   └── QueueFull        contention, and `max_waiting` others wait already        (55P03)
    ├── DeadlockDetected     sessions wait for each other, and this wait was ended   (40P01)
    ├── LockLost             the lease ended, or an operator ended the hold
    │   └── StaleHold        a fenced row was to be written under a lost hold
    ├── UnfencedWrite        a row that requires a hold was to be written without one
    ├── TooMuchContention    an optimistic transaction kept meeting others           (40001)
    ├── LockNotHeld          the hold was released already, or is another process's
    ├── AlreadyDone          run_once: the job is done, there is nothing to do
    ├── AttemptsExhausted    run_once: every attempt at the job failed
    ├── ResultNotStored      run_once: the job is done, but its result is not stored
    └── LockBackendError     Redis could not be asked, or refused to answer
        ├── NotReplicated    too few replicas acknowledged a grant, or an extend
        └── ProtocolMismatch another version of this package uses the lock, in another way

`LockNotAvailable`, `LockTimeout`, `DeadlockDetected` and `TooMuchContention` are
`django.db.OperationalError`s with PostgreSQL's SQLSTATE in `.sqlstate`, so code that handles the
database's handles them.

The text of an error may reach clients, so it names no host, process or thread of a holder or
waiter. Attributes, the log and notes, which a traceback shows, name them. Only the text is in
`args`; the rest travels with a pickled error as its attributes.
"""

from __future__ import annotations

from typing import NamedTuple

from django.db.utils import OperationalError


class LockError(Exception):
    """Anything this package raises about a lock.

    Attributes:
        may_be_done: True if a caller that tries again may do its work twice. A hook of
            ``on_commit`` raised the error, after COMMIT; or Redis did not confirm the end of a
            hold, a release or a commit.
    """

    may_be_done = False


class LockNotAvailable(LockError, OperationalError):
    """Somebody else holds the lock, and the caller asked not to wait.

    Attributes:
        name: The lock.
        holder: Who holds it, as text for people; None if that is not known.
        retry_after: Seconds until the holder's lease ends unless renewed; None if unknown.
        waiting: The number of waiters (for a set, of the longest queue); None if unknown.
    """

    sqlstate = "55P03"

    def __init__(
        self,
        message: str,
        name: str = "",
        holder: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.name = name
        self.holder = holder
        self.retry_after = retry_after
        self.waiting: int | None = None
        if holder is not None:
            self.add_note(f"It is held by {holder}.")


class LockTimeout(LockNotAvailable):
    """The lock did not become free within the wait."""


class QueueFull(LockNotAvailable):
    """Somebody else holds the lock, and as many wait for it as its `max_waiting` allows.

    The caller did not wait.
    """


class Wait(NamedTuple):
    """One of the waits that make a deadlock.

    Attributes:
        names: The locks it waits for.
        mode: "exclusive", "shared", "permit", a mode of rows or, for a shared hold that wants to
            become exclusive, "upgrade".
        who: Who waits, as text for people: host, pid, thread or task, and what it runs.
        where: The line of code that waits.
    """

    names: tuple[str, ...]
    mode: str
    who: str
    where: str

    def __str__(self) -> str:
        locks = ", ".join(map(repr, self.names))
        return f"{self.who} waits at {self.where} for {locks} ({self.mode})"


class DeadlockDetected(LockError, OperationalError):
    """Sessions wait for each other in a circle.

    This wait, the youngest, was ended to let the others go on.

    Attributes:
        circle: The waits, this one first; each waits for what the next one has.
    """

    sqlstate = "40P01"

    def __init__(self, message: str, circle: tuple[Wait, ...] = ()) -> None:
        super().__init__(message)
        self.circle = circle
        for wait in circle:
            self.add_note(str(wait))


class TooMuchContention(LockError, OperationalError):
    """Others kept changing what an optimistic transaction watched; nothing was written.

    Attributes:
        keys: The keys that were watched.
        attempts: How often the transaction was tried.
    """

    sqlstate = "40001"

    def __init__(self, message: str, keys: tuple[str, ...] = (), attempts: int = 0) -> None:
        super().__init__(message)
        self.keys = keys
        self.attempts = attempts


class LockLost(LockError):
    """The lease ended, Redis lost the hold, or an operator ended it, while the holder held it."""


class StaleHold(LockLost):
    """A fenced read or write was refused.

    The hold is lost, or a later one, with a greater fencing token, touched the row.
    """


class UnfencedWrite(LockError):
    """A row whose model has ``fenced = "required"`` was to be changed without a hold.

    Nothing was written.
    """


class LockNotHeld(LockError):
    """This hold was released already, or belongs to another process."""


class AlreadyDone(LockError):
    """The job is done already, so its block does not run.

    Attributes:
        name: The job.
        attempt: Number of the attempt that did it.
        result: The stored result; None also when none was stored.
    """

    def __init__(
        self, message: str, name: str = "", attempt: int = 0, result: object = None
    ) -> None:
        super().__init__(message)
        self.name = name
        self.attempt = attempt
        self.result = result


class AttemptsExhausted(LockError):
    """Every attempt at a job failed, and it is not tried again while that is remembered.

    Attributes:
        name: The job.
        attempts: How many there were.
        last_error: How the last one ended, as text; None if its process died or lost the lock.
    """

    def __init__(
        self, message: str, name: str = "", attempts: int = 0, last_error: str | None = None
    ) -> None:
        super().__init__(message)
        self.name = name
        self.attempts = attempts
        self.last_error = last_error


class ResultNotStored(LockError):
    """A job is done and is not done again, but its result could not be stored.

    Later calls return None.

    Only the caller that did the job gets this error.

    Attributes:
        name: The job.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class LockBackendError(LockError):
    """Redis could not be reached or gave an unusable answer; what was held ends with its lease."""


class ProtocolMismatch(LockBackendError):
    """Another version of this package, with another protocol, uses the lock; nothing was changed.

    Attributes:
        theirs: The number of the protocol that the other version speaks.
        ours: The number of the protocol that this process speaks.
        retry_after: Seconds until the other version's lease ends, unless it is renewed.
    """

    def __init__(
        self, message: str, theirs: str = "", ours: str = "", retry_after: float = 0.0
    ) -> None:
        super().__init__(message)
        self.theirs = theirs
        self.ours = ours
        self.retry_after = retry_after


class NotReplicated(LockBackendError):
    """Fewer replicas than asked for acknowledged what was written, so it does not count.

    `replicas` says how many were asked for.

    A grant was taken back. An extend may be on the primary; the hold's deadline is what it was.

    Attributes:
        name: The lock.
        acknowledged: How many replicas have what was written.
        wanted: How many were asked for.
    """

    def __init__(
        self, message: str, name: str = "", acknowledged: int = 0, wanted: int = 0
    ) -> None:
        super().__init__(message)
        self.name = name
        self.acknowledged = acknowledged
        self.wanted = wanted
