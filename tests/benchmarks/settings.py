"""The tests' settings, but with users' defaults: what is measured is what users get."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

REDIS_LOCKS = {"CONNECTION": "default"}
