"""The text by which a hold travels: signed with SECRET_KEY, good for one adoption."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple, Self

from django.core import signing

from redis_locks.exceptions import LockLost

SALT: Final = "redis_locks.locks.transfer hold"

CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""By how much the clocks of two machines may differ; whether the lease has ended, Redis knows."""


class Detached(NamedTuple):
    """A hold between two holders: `token` holds the lock, and no thread or task has it."""

    names: tuple[str, ...]
    token: str
    mode: str
    lease_ms: int
    """The lease that it had, and that it gets back when it is adopted."""
    transit_ms: int
    """The lease that it has meanwhile."""
    template: str | None
    replicas: int
    at_ms: int
    """Since when it travels, server time."""
    held_ms: int
    """How long it was held until then."""

    def text(self) -> str:
        """Return it as text, which can be read, but not changed or made by others."""
        return signing.dumps(self._asdict(), salt=SALT)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what was written as text.

        Raises:
            LockLost: It is older than its lease.
            ValueError: It is not what `text` returned, or was signed with another SECRET_KEY.
            TypeError: It is not a string.
        """
        if not isinstance(text, str):
            msg = f"text must be what Hold.detach() returned, not {text!r}"
            raise TypeError(msg)
        try:
            found = cls(**signing.loads(text, salt=SALT))
            lease = timedelta(milliseconds=found.transit_ms)
            signing.loads(text, salt=SALT, max_age=lease + CLOCKS_DIFFER)
        except signing.SignatureExpired:
            within = f"{lease.total_seconds():g} s"
            msg = f"Lock {', '.join(found.names)!r} was not adopted within its lease of {within}"
            raise LockLost(msg) from None
        except (signing.BadSignature, UnicodeEncodeError):
            msg = (
                "text is not what Hold.detach() returned, or it was signed with another SECRET_KEY "
                "(SECRET_KEY_FALLBACKS are tried as well)"
            )
            raise ValueError(msg) from None
        return found._replace(names=tuple(found.names))  # JSON has lists only
