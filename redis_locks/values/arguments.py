"""Check arguments of any kind: each error names the argument and the value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping


def refuse_unknown(options: Mapping[str, object], known: Collection[str], what: str) -> None:
    """Raise TypeError if `what` gets an option that is not one of the known ones."""
    if wrong := options.keys() - known:
        msg = f"{what} has no argument {min(wrong)!r}; its options are {', '.join(sorted(known))}"
        raise TypeError(msg)


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


def limit(value: object, *, lowest: int) -> int | None:
    """Return the most of something, or None for all.

    Raises:
        TypeError: It is neither a whole number nor None.
        ValueError: It is below `lowest`.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"limit must be a whole number or None for all, not {value!r}"
        raise TypeError(msg)
    if value < lowest:
        msg = f"limit must be {lowest} or more, or None for all, not {value}"
        raise ValueError(msg)
    return value


def whole_number(lowest: int, highest: int) -> Callable[[object, str], int]:
    """Return what reads a whole number in that range, of an entry or argument of a given name."""

    def read(value: object, entry: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            msg = f"{entry} must be a whole number, not {value!r}"
            raise TypeError(msg)
        if not lowest <= value <= highest:
            msg = f"{entry} must be from {lowest} to {highest}, not {value!r}"
            raise ValueError(msg)
        return value

    return read


def one_of(*choices: str) -> Callable[[object, str], str]:
    """Return what reads one of some words, of an entry or argument of a given name."""

    def read(value: object, entry: str) -> str:
        if not isinstance(value, str) or value not in choices:
            msg = (
                f"{entry} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, not "
                f"{value!r}"
            )
            raise (ValueError if isinstance(value, str) else TypeError)(msg)
        return value

    return read
