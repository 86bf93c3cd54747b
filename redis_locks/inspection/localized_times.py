"""Lengths of time for readers of any language: the decimal separator is the active language's."""

from __future__ import annotations

from django.utils.formats import get_format

from redis_locks.values import text


def duration(seconds: float) -> str:
    """Return seconds as `values.text.duration` does.

    The units d, h, m and s are the same everywhere.
    """
    return _separated(text.duration(seconds))


def latency(seconds: float) -> str:
    """Return seconds as `values.text.latency` does; see `duration`."""
    return _separated(text.latency(seconds))


def seconds(number: float) -> str:
    """Return a length in seconds: 30 s, 0.5 s, 2m00s."""
    return _separated(f"{number:.3g} s") if number < 120 else duration(number)  # noqa: PLR2004 - two minutes


def decimal_separator() -> str:
    """Return what stands before the fraction of a number."""
    return str(get_format("DECIMAL_SEPARATOR"))


def _separated(written: str) -> str:
    return written.replace(".", decimal_separator())
