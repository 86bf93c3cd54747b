"""Callables that REDIS_LOCKS["CONNECTION"] may name."""

from __future__ import annotations

import redis
from django.conf import settings


def decoding() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, decode_responses=True)


def plain() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL)
