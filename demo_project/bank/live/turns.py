"""While a race counts balances, only its own transfers may change them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from redis_locks import Lock, LockNotAvailable, redis_lock

RACE_LOCK = "bank:race"
# Longer than a transfer takes as a rule; whoever finds a race under way is told so at once.
PATIENCE_SECONDS = 1.0


class BankInUse(Exception):
    """Somebody else's race or transfer is under way; the message says whose."""


def race_turn() -> AbstractContextManager[None]:
    """Keep everybody else from changing balances; waits a moment for transfers that are under way.

    Raises:
        BankInUse: Another race, or a long transfer, is under way.
        LockBackendError: Redis could not be asked.
    """
    lock = redis_lock(RACE_LOCK, wait=PATIENCE_SECONDS, label="a race in the bank")
    return _turn(lock, "Another race or a transfer is under way")


def transfer_turn(label: str) -> AbstractContextManager[None]:
    """Keep races away, but not other transfers; does not wait.

    Args:
        label: What is being done, for those whom it keeps waiting.

    Raises:
        BankInUse: A race is under way, or about to begin.
        LockBackendError: Redis could not be asked.
    """
    return _turn(redis_lock(RACE_LOCK, mode="shared", wait=0, label=label), "A race is under way")


@contextmanager
def _turn(lock: Lock, what: str) -> Iterator[None]:
    try:
        with lock:
            yield
    except LockNotAvailable as error:
        if error.name != RACE_LOCK:
            raise
        holder = f" It is run by {error.holder}." if error.holder else ""
        raise BankInUse(f"{what}; try again in a moment.{holder}") from error
