"""The tests' settings, but what users have where they choose nothing: what is measured is what they get."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

REDIS_LOCKS = {"CONNECTION": "default"}
