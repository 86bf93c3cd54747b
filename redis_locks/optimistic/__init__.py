"""Optimistic transactions: WATCH, read, MULTI, EXEC; again after a conflict, but applied once."""

from __future__ import annotations
