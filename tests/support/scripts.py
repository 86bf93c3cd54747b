"""The scripts that the server runs."""

from __future__ import annotations

from redis_locks.scripts import ACQUIRE, ALL, EXTEND, RELEASE, Script
