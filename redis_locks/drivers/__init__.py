"""Talk to Redis, blocking or async, behind one async-shaped protocol."""

from __future__ import annotations
