"""One Backend per server and prefix: its drivers and renewers, shared by all locks on it."""

from __future__ import annotations

from django.core.signals import setting_changed

from redis_locks.conf import get_settings
from redis_locks.connections import resolve
from redis_locks.drivers.asynchronous import AsyncDriver, LoopDrivers
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.keys import LockKeys, lock_keys, partition_of
from redis_locks.renewal import TaskRenewer, ThreadRenewer


class Backend:
    """A server, as locks see it. Connects when first used."""

    def __init__(self, endpoint: Endpoint, prefix: str, partitions: int) -> None:
        self.description = endpoint.description
        self._prefix = prefix
        self._partitions = partitions
        self.driver = BlockingDriver(endpoint, prefix)
        self.renewer = ThreadRenewer(self.driver)
        self._loop_drivers = LoopDrivers(endpoint, prefix)

    async def of_loop(self) -> tuple[AsyncDriver, TaskRenewer]:
        """Return the running event loop's driver and renewer."""
        driver = await self._loop_drivers.get()
        if driver.renewer is None:
            driver.renewer = TaskRenewer(driver)
        return driver, driver.renewer

    def keys(self, name: str) -> LockKeys:
        """Return the keys of the lock `name`."""
        return lock_keys(self._prefix, partition_of(name, self._partitions), name)

    def partitions(self) -> list[LockKeys]:
        """Return the keys of a nameless lock of each partition: the way to the indexes."""
        return [lock_keys(self._prefix, partition, "") for partition in range(self._partitions)]


_backends: dict[str | None, Backend] = {}


def backend_for(using: str | None) -> Backend:
    """Return the backend that `using` names; None means REDIS_LOCKS["CONNECTION"].

    Raises:
        ImproperlyConfigured: `using` or a setting is wrong.
    """
    try:
        return _backends[using]
    except KeyError:
        settings = get_settings()
        backend = Backend(resolve(using), settings.prefix, settings.partitions)
        return _backends.setdefault(using, backend)


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"CACHES", "REDIS_LOCKS"}:
        _backends.clear()


setting_changed.connect(_forget, dispatch_uid="redis_locks.backends")
