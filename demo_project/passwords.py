"""A quick hash for the demo's password, which is random and new at each start.

The password guards a site of this machine.
"""

from __future__ import annotations

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class QuickHasher(PBKDF2PasswordHasher):
    """PBKDF2 with so few rounds that starting the demo and logging in take no time."""

    iterations = 20_000
