"""What a lock may be told beside its names, checked."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, get_args

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.conf.validation import MAX_REPLICAS, OnUnavailable
from redis_locks.locks.scope import Scope
from redis_locks.values.arguments import flag, one_of, optional_text, whole_number
from redis_locks.values.durations import lease_ms, span_seconds, wait_seconds


def _checked(
    wait: object,
    lease: object,
    renew: object,
    using: object,
    label: object,
    mode: object,
    scope: Any,
    database: Any,
    commit_guard: Any,
    reentrant: object,
    crash_release: object,
    replicas: object,
    max_hold: object,
    on_unavailable: object,
) -> dict[str, Any]:
    """Return the attributes of a lock with these options, some shared by all that have them. Raises TypeError, ValueError."""
    known = validate_mode(mode)
    return {
        "_mode": known,
        "_wait": wait if wait is UNSET else wait_seconds(wait),
        "_lease_ms": lease if lease is UNSET else lease_ms(lease),
        "_renew": renew if renew is UNSET else flag(renew, "renew"),
        "_using": optional_text(using, "using"),
        "_label": optional_text(label, "label"),
        "scope": Scope(scope, database, commit_guard),
        "_reentrant": checked_reentrant(reentrant),
        "_crash_release": checked_crash_release(crash_release, known),
        "_replicas": checked_replicas(replicas),
        "_max_hold": None if max_hold is UNSET else span_seconds(max_hold, argument="max_hold"),
        "_on_unavailable": checked_on_unavailable(on_unavailable),
        "_plan": None,
    }


# `typed`, as True and 1.0 are equal to 1.
_kept = lru_cache(maxsize=512, typed=True)(_checked)


def checked(*options: object) -> dict[str, Any]:
    """Return the attributes of a lock with these options, in the order of `_checked`.

    Locks are often described where they are used, each time: only the first pays for the checks.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
    """
    try:
        return _kept(*options)
    except TypeError:
        pass  # one of them is wrong, or at least cannot be looked up
    return _checked(*options)


def checked_reentrant(value: object) -> bool | Literal["thread"]:
    """Return `value` if it is True, False or "thread"; raises TypeError, ValueError."""
    if isinstance(value, bool) or value == "thread":
        return value
    msg = f"reentrant must be True, False or 'thread', not {value!r}"
    raise ValueError(msg) if isinstance(value, str) else TypeError(msg)


def checked_crash_release(value: object, mode: str) -> bool:
    """Return `value` if it is True or False, and False unless `mode` is exclusive; raises TypeError, ValueError."""
    crash_release = flag(value, "crash_release")
    if crash_release and mode != "exclusive":
        msg = f"crash_release is for exclusive locks; with mode={mode!r} leave it out and use a short lease"
        raise ValueError(msg)
    return crash_release


def checked_replicas(value: object) -> int | Unset:
    """Return `value` if it is a number of replicas, or not given; raises TypeError, ValueError."""
    return UNSET if value is UNSET else whole_number(0, MAX_REPLICAS)(value, "replicas")


def checked_on_unavailable(value: object) -> object:
    """Return `value` if it is one of `OnUnavailable`, or not given; raises TypeError, ValueError."""
    if value is UNSET:
        return UNSET
    return one_of(*get_args(OnUnavailable))(value, "on_unavailable")


def validate_mode(mode: object) -> str:
    """Return `mode` if it is "exclusive" or "shared"; raises ValueError or TypeError."""
    if mode == "exclusive" or mode == "shared":  # noqa: PLR1714 - mypy narrows this way only
        return mode
    msg = f'mode must be "exclusive" or "shared", not {mode!r}'
    raise ValueError(msg) if isinstance(mode, str) else TypeError(msg)
