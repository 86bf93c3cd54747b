"""Keys of users' data in the cluster slot of a lock, so that one step reaches both."""

from __future__ import annotations

from redis_locks.conf.name_function import server_name
from redis_locks.conf.settings import get_settings
from redis_locks.values.keys import Keys, partition_of, validate_name


def key_beside(name: str, key: str) -> str:
    """Return the name of a key, made from `key`, in the cluster slot of the lock `name`.

    So ``read=`` and ``Hold.commit`` reach it on a cluster, and a transaction that watches several
    of them is possible. It is another one when ``REDIS_LOCKS["PARTITIONS"]`` changes: data has to
    move then. Asks nobody. On a single server any key will do, this one as well.

    Raises:
        TypeError: `name` or `key` is not a string.
        ValueError: `name` cannot name a lock.
    """
    if not isinstance(key, str):
        raise TypeError(f"key must be a string, not {key!r} ({type(key).__name__})")
    settings = get_settings()
    lock = server_name(validate_name(name))
    partition = partition_of(lock, settings.partitions, renames=settings.name_function is not None)
    # The tag stands first, so that braces in the key are only text.
    return f"{{{partition}}}:{key}"


def require_beside(what: str, key: bytes, keys: Keys, otherwise: str) -> None:
    """Raise ValueError if `key` is not in the slot of a lock's `keys`.

    The error names `what`, and what to do `otherwise`.
    """
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis_locks.drivers.slots import slot_of

    slot, wanted = slot_of(key), slot_of(keys[0])
    if slot != wanted:
        raise ValueError(
            f"{what} reaches only keys in the cluster slot of the lock, which is {wanted}, and "
            f"{key.decode(errors='replace')!r} is in {slot}. Name it redis_locks.key_beside(LOCK, "
            f"KEY), or {otherwise}"
        )
