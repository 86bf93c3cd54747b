"""The filters ``money`` and ``thousands``."""

from __future__ import annotations

from django import template

from demo_project.bank.live.money import money

register = template.Library()
register.filter("money", money)


@register.filter
def thousands(number: int) -> str:
    """The number with commas, the same for every reader."""
    return f"{number:,}"
