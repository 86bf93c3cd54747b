"""The settings as the product reads them."""

from __future__ import annotations

from redis_locks.conf.settings import Settings, get_settings, problems
