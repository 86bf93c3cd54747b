"""What every lock that is measured is given: a server, and how long it may wait and live."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import redis
from django.core.exceptions import ImproperlyConfigured

from redis_locks.connections.resolution import client_of

LEASE, WAIT = 10, 60
"""Seconds, of each lock that can be told."""

Take = Callable[[], AbstractContextManager[object]]
"""Makes what is to be entered for one acquire; what that yields may have `tries`, else it was one.
"""


def one_server(using: str | None) -> redis.Redis:
    """Return the client that `using` names. Raises ImproperlyConfigured if that is a cluster's."""
    client = client_of(using)
    if isinstance(client, redis.Redis):
        return client
    msg = (
        "a benchmark compares locks on one server: name one of the cluster's nodes, or another "
        "server, by --using"
    )
    raise ImproperlyConfigured(msg)
