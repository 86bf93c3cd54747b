"""The filter ``money``."""

from __future__ import annotations

from django import template

from demo_project.bank.live.money import money

register = template.Library()
register.filter("money", money)
