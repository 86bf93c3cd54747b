"""Check arguments of any kind: each error names the argument and the value."""

from __future__ import annotations


def flag(value: object, argument: str) -> bool:
    """Return `value` if it is True or False; raises TypeError."""
    if not isinstance(value, bool):
        msg = f"{argument} must be True or False, not {value!r}"
        raise TypeError(msg)
    return value


def optional_text(value: object, argument: str) -> str | None:
    """Return `value` if it is a string or None; raises TypeError."""
    if value is not None and not isinstance(value, str):
        msg = f"{argument} must be a string or None, not {value!r} ({type(value).__name__})"
        raise TypeError(msg)
    return value


def limit(value: object, *, lowest: int, argument: str = "limit") -> int | None:
    """Return the most of something, or None for all.

    Raises:
        TypeError: It is neither a whole number nor None.
        ValueError: It is below `lowest`.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{argument} must be a whole number or None for all, not {value!r}"
        raise TypeError(msg)
    if value < lowest:
        msg = f"{argument} must be {lowest} or more, or None for all, not {value}"
        raise ValueError(msg)
    return value
