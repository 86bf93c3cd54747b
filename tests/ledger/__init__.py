"""Models that only the tests use."""

from __future__ import annotations
