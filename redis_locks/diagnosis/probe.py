"""A connection for questions about the server, beside those that carry locks."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from redis_locks.conf import Settings, get_settings
from redis_locks.connections import resolve
from redis_locks.drivers.endpoint import Endpoint


class Probe:
    """One server, asked over one connection, and what was read so far.

    Every property asks when first used and raises redis-py's errors.
    """

    def __init__(self, using: str | None) -> None:
        self.settings: Settings = get_settings()
        self.using = using
        self.spec = self.settings.connection if using is None else using
        self.endpoint: Endpoint = resolve(using)
        self._pool = ConnectionPool(
            connection_class=self.endpoint.connection_class,
            **{
                **self.endpoint.kwargs,
                "protocol": 3,
                "decode_responses": True,
                "retry": Retry(NoBackoff(), 0),
                "socket_timeout": self.endpoint.reply_timeout,
                "socket_connect_timeout": self.endpoint.connect_timeout,
                "maint_notifications_config": MaintNotificationsConfig(enabled=False),
            },
        )
        # Any: redis-py's own types leave open whether a reply is awaitable.
        self.client: Any = redis.Redis(connection_pool=self._pool)

    def close(self) -> None:
        """Close the connection."""
        self._pool.disconnect()

    @cached_property
    def hello(self) -> dict[str, Any]:
        """What the server says of itself to everybody: server, version, mode, role."""
        return dict(self.client.execute_command("HELLO"))

    @cached_property
    def info(self) -> dict[str, Any]:
        """The server's INFO."""
        return dict(self.client.info())

    @cached_property
    def user(self) -> str:
        """The name of our user, for people; asks nothing."""
        return str(self.endpoint.kwargs.get("username") or "default")
