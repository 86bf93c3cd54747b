"""Whole cents for people, and back."""

from __future__ import annotations

from decimal import Decimal


def money(cents: int) -> str:
    """Return an amount as text: 123456 is ``1,234.56``, the same for every reader."""
    sign = "-" if cents < 0 else ""
    units, rest = divmod(abs(cents), 100)
    return f"{sign}{units:,}.{rest:02d}"


def cents_of(amount: Decimal) -> int:
    """Return an amount with two decimals as cents."""
    return int(amount * 100)
