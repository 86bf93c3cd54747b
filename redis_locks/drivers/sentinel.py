"""Ask Sentinels for the primary before each connection, so that connections follow a fail-over.

`endpoint` puts it where redis-py's connections look for their pool.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import redis
import redis.asyncio as aioredis
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.connection_options import without_notifications
from redis_locks.drivers.listener_thread import connect_all_again
from redis_locks.drivers.time_limits import seconds_left
from redis_locks.values.interrupts import interrupt_behind

Services = Mapping[str, Mapping[str, Any]]
"""What one Sentinel knows: name of a service -> its state."""

PATIENCE = 1.0
"""Most seconds to wait for one Sentinel; the next one knows as well."""


class SentinelsSilent(redis_errors.ConnectionError):
    """No Sentinel answers."""


class FailingOver(redis_errors.ConnectionError):
    """Sentinels answer, but see no primary that works; they will soon have made another one."""


class UnknownService(redis_errors.RedisError):
    """Sentinels answer, but do not watch the service."""


class Sentinels:
    """The Sentinels that watch one service.

    It stands where redis-py's `SentinelManagedConnection` looks for its pool. redis-py's own way to
    ask retries each Sentinel ten times, and does not tell a fail-over from a wrong service. It
    shares clients between threads, and with the application.

    Args:
        service: The name under which Sentinels watch the primary.
        addresses: Where the Sentinels are.
        options: Arguments of `redis.Redis` for connections to Sentinels.
        least_others: How many other Sentinels one must see to be believed.
        forced_host: What to connect to in place of the host that Sentinels name; None: that host.
    """

    is_master = True
    check_connection = False

    def __init__(
        self,
        service: str,
        addresses: Iterable[Address],
        options: Mapping[str, Any],
        *,
        least_others: int = 0,
        forced_host: str | None = None,
    ) -> None:
        self.service_name = service
        self.in_loop = SimpleNamespace(
            is_master=True, check_connection=False, get_master_address=self.find_in_loop
        )
        """The same for asyncio connections."""
        self._addresses = tuple(addresses)
        self._primary: Address | None = None
        self._least_others = least_others
        self._forced_host = forced_host
        self._options = {
            **options,
            # Else a new connection would ask for features that a Sentinel does not have.
            **without_notifications(redis.Redis),
            **_limits(options, PATIENCE),
        }

    @classmethod
    def of_pool(cls, pool: Any) -> Sentinels:
        """Return the Sentinels that a pool of redis-py asks. Connects to nothing."""
        manager = pool.sentinel_manager
        clients = (each.connection_pool.connection_kwargs for each in manager.sentinels)
        return cls(
            pool.service_name,
            ((client["host"], int(client["port"])) for client in clients),
            manager.sentinel_kwargs,
            least_others=manager.min_other_sentinels,
            forced_host=getattr(manager, "_force_master_ip", None),  # of some releases only
        )

    @property
    def where(self) -> str:
        """Their addresses, for people; in an order that does not depend on who answered last."""
        return ",".join(f"{host}:{port}" for host, port in sorted(self._addresses))

    def get_master_address(self) -> Address:
        """Return where the primary is. The name is redis-py's. Blocks.

        Raises:
            SentinelsSilent: No Sentinel answers.
            FailingOver: They see no primary that works.
            UnknownService: They do not watch the service.
            AuthenticationError: They refuse our credentials.
        """
        return run_blocking(self._find(self._ask))

    async def find_in_loop(self) -> Address:
        """Return where the primary is; suspends. Raises as `get_master_address` does."""
        return await self._find(self._ask_in_loop)

    async def _find(self, ask: Callable[[Address], Awaitable[Services]]) -> Address:
        failures: list[Exception] = []
        outer = sys.exception()
        others: set[str] = set()
        down = False
        for address in self._addresses:
            try:
                services = await ask(address)
            except (redis_errors.RedisError, OSError) as error:
                if (interrupt := interrupt_behind(error, outer)) is not None:
                    raise interrupt  # noqa: B904 - as before redis-py took it for its own error
                failures.append(error)
                continue
            state = services.get(self.service_name)
            if state is None:
                others.update(services)
            elif not self._works(state):
                down = True
            else:
                # First the next time: the others may be those that do not answer.
                rest = (each for each in self._addresses if each != address)
                self._addresses = (address, *rest)
                return self._follow((self._forced_host or str(state["ip"]), int(state["port"])))
        raise self._not_found(failures, others, down=down)

    def _follow(self, primary: Address) -> Address:
        """Return the primary, for a new connection. Listeners on the one before connect anew."""
        before, self._primary = self._primary, primary
        if before is not None and before != primary:
            connect_all_again(before)
        return primary

    def _works(self, state: Mapping[str, Any]) -> bool:
        return (
            bool(state["is_master"])
            and not (state["is_sdown"] or state["is_odown"])
            and int(state["num-other-sentinels"]) >= self._least_others
        )

    def _not_found(self, failures: list[Exception], others: set[str], *, down: bool) -> Exception:
        if down:
            return FailingOver(f"the Sentinels see no working primary of {self.service_name!r}")
        if len(failures) < len(self._addresses):
            watched = ", ".join(sorted(others)) or "nothing"
            return UnknownService(
                f"the Sentinels watch no service {self.service_name!r}, but {watched}"
            )
        said = "; ".join(dict.fromkeys(str(failure) for failure in failures))
        for failure in failures:
            if isinstance(failure, _REFUSALS):
                return redis_errors.AuthenticationError(f"a Sentinel says: {failure}")
        return SentinelsSilent(f"no Sentinel answers: {said}")

    async def _ask(self, address: Address) -> Services:
        host, port = address
        # To connect and to ask are two steps.
        limits = _limits(self._options, seconds_left(2 * PATIENCE) / 2)
        options = {**self._options, **limits, "retry": Retry(NoBackoff(), 0)}
        with redis.Redis(host, port, **options) as client:
            return cast("Services", client.sentinel_masters())

    async def _ask_in_loop(self, address: Address) -> Services:
        host, port = address
        options = {**self._options, "retry": AsyncRetry(NoBackoff(), 0)}
        async with aioredis.Redis(host=host, port=port, **options) as client:
            return cast("Services", await client.sentinel_masters())


def _limits(options: Mapping[str, Any], most: float) -> dict[str, float]:
    """Return the options that limit each step of a client, to `most` seconds at most."""
    names = ("socket_timeout", "socket_connect_timeout")
    return {name: min(options.get(name) or most, most) for name in names}


_REFUSALS = (redis_errors.AuthenticationError, redis_errors.NoPermissionError)
