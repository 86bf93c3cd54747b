"""Renewal: one background thread per process and server, or one task per event loop.

A lease is renewed a third of its length after the last time. A failed try is repeated every
tenth until the lease's own deadline on the monotonic clock; then the hold is lost, and so it
is when Redis says that the token holds nothing. Only weak references are kept: the lease of
a hold that was dropped without release runs out.
"""

from __future__ import annotations
