"""One `Backend` per server and prefix: its drivers and renewers, shared by all locks on it.

Locks acquire through it; `inspection` and `statistics` ask it outside of any hold or wait.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from django.core.signals import setting_changed

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.connections.event_loops import PerLoop
from redis_locks.drivers.base import Driver, Link, LinkBroken, Unreachable, run_blocking
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol.background import Background
from redis_locks.protocol.lease import Renewer
from redis_locks.protocol.plans import Terms
from redis_locks.protocol.renewal import LoopRenewer, ThreadRenewer
from redis_locks.protocol.retry import persist
from redis_locks.values.arguments import optional_text
from redis_locks.values.identity import process_name, process_of
from redis_locks.values.keys import (
    Group,
    Keys,
    holder_channel,
    index_key,
    partition_of,
    set_keys,
    spell_keys,
)

if TYPE_CHECKING:
    from redis_locks.drivers.asynchronous import AsyncDriver
    from redis_locks.drivers.cluster import AsyncClusterDriver
    from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
    from redis_locks.drivers.endpoint import Endpoint

T = TypeVar("T")

_MOST_TERMS: Final = 512
"""How many terms a server remembers."""

_PATIENCE = 0.25
"""Seconds for which a question is asked again when connections break; it is asked twice at least.
"""


class Backend:
    """A server or a cluster, as locks see it. Connects when first used."""

    driver: Driver
    renewer: Renewer
    has_server = True
    """Whether there is a server that can say how it is."""
    in_cluster = False
    """Whether a step reaches only the keys of one slot."""
    release_timeout = inf
    """Seconds for which a caller waits for the end of a hold."""
    is_hasty = False
    """Whether that is less than it waits for any other reply."""

    def __init__(self, endpoint: Endpoint | ClusterEndpoint, prefix: str, partitions: int) -> None:
        # Not above: they import redis-py, which takes Django's start longer than all of this app,
        # and many processes, such as `manage.py migrate`, take no lock.
        from redis_locks.drivers.asynchronous import AsyncDriver
        from redis_locks.drivers.blocking import BlockingDriver
        from redis_locks.drivers.cluster import AsyncClusterDriver, BlockingClusterDriver
        from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
        from redis_locks.protocol.cluster_renewal import NodeRenewer

        self.description = endpoint.description
        self.terms: dict[object, Terms] = {}
        """What locks and jobs have in common here, by their options."""
        self._patient: Renewer
        self._prefix, self._partitions = prefix, partitions
        self.renames = get_settings().name_function is not None
        """Whether locks have other names here than code gives them."""
        self._loop_drivers: PerLoop[AsyncDriver] | PerLoop[AsyncClusterDriver]
        if isinstance(endpoint, ClusterEndpoint):
            self.in_cluster = True
            driver = BlockingClusterDriver(endpoint, partial(BlockingDriver, prefix=prefix))
            self.driver = driver
            self.renewer = self._patient = NodeRenewer(driver.nodes, lambda: ThreadRenewer(driver))
            slots, driver_of = driver.nodes.slots, partial(AsyncDriver, prefix=prefix)
            self._loop_drivers = PerLoop(
                lambda: AsyncClusterDriver(endpoint, driver_of, slots), AsyncClusterDriver.aclose
            )
        else:
            most = get_settings().max_connections
            self.driver = blocking = BlockingDriver(endpoint, prefix, most)
            self.renewer = ThreadRenewer(blocking)
            self._patient = ThreadRenewer(blocking)
            self._loop_drivers = PerLoop(partial(AsyncDriver, endpoint, prefix), AsyncDriver.aclose)
        self.driver.background = self.background = Background(self.driver)
        self.release_timeout = get_settings().release_timeout
        self.is_hasty = self.release_timeout < self.driver.reply_timeout

    def of_loop(self) -> tuple[Driver, Renewer]:
        """Return the running event loop's driver and renewer."""
        driver = self._loop_drivers.get()
        if driver.renewer is None:
            driver.renewer = self._of_loop(self.renewer, driver)
            driver.background = self.background
        return driver, driver.renewer

    def revoke(self, token: str) -> None:
        """Note that the hold of `token` was ended by an operator.

        Nothing happens if it is another process's.
        """
        self.renewer.revoke(token)
        if self._patient is not self.renewer:
            self._patient.revoke(token)

    def replicas(self, wanted: int | Unset) -> int:
        """Return how many replicas have to know of a hold; `wanted` is what its lock says."""
        return get_settings().replicas if wanted is UNSET else wanted

    def patient(self, driver: Driver) -> Renewer:
        """Return the renewer for holds that replicas have to know of.

        It waits for them, and delays no other holds.

        Raises:
            ValueError: The server is a cluster.
        """
        unshared: Any = driver.unshared()
        if not driver.suspends:
            return self._patient
        if unshared.renewer is None:
            unshared.renewer = self._of_loop(self._patient, unshared)
        return cast("Renewer", unshared.renewer)

    @staticmethod
    def _of_loop(renewer: Renewer, driver: Driver) -> Renewer:
        return LoopRenewer(renewer, driver, get_settings().max_hold)

    def remember_terms(self, options: object, terms: Terms) -> Terms:
        """Note what options come to here, and return it."""
        if len(self.terms) >= _MOST_TERMS:
            self.terms.clear()
        self.terms[options] = terms
        return terms

    def groups(self, names: tuple[str, ...]) -> list[Group]:
        """Return the scripts' KEYS for a set of locks, with the names.

        Each partition has its own.

        They come in the order in which every process has to acquire them.
        """
        if self._partitions == 1:
            return [(names, spell_keys(self._prefix, 0, names))]
        by_partition: dict[int, list[str]] = {}
        for name in names:
            by_partition.setdefault(self._partition_of(name), []).append(name)
        return [
            (tuple(group), spell_keys(self._prefix, partition, tuple(group)))
            for partition, group in sorted(by_partition.items())
        ]

    def keys(self, *names: str) -> Keys:
        """Return the scripts' KEYS for a set of locks that one script is to reach.

        Raises:
            ValueError: They are not in one partition.
        """
        partitions = {self._partition_of(name) for name in names}
        if len(partitions) > 1:
            raise ValueError(
                f"the locks {', '.join(map(repr, names[:5]))} are in several partitions and cannot "
                'be reached in one step; take them one by one, or set REDIS_LOCKS["PARTITIONS"] to '
                "1"
            )
        return set_keys(self._prefix, partitions.pop(), names)

    def _partition_of(self, name: str) -> int:
        return partition_of(name, self._partitions, renames=self.renames)

    def holder_channel(self, token: str) -> str:
        """Return the channel on which the process that a token belongs to hears of its end."""
        return holder_channel(self._prefix, process_of(token))

    @property
    def own_channel(self) -> str:
        """The channel to which this process listens while it holds."""
        return holder_channel(self._prefix, process_name())

    def partitions(self) -> list[Keys]:
        """Return the KEYS of each partition's index."""
        return [(index_key(self._prefix, partition),) for partition in range(self._partitions)]

    async def ask(self, driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]]) -> T:
        """Run `action` on a link, again on a new one if that breaks, so it must be safe to repeat.

        Raises:
            LockBackendError: Redis could not be asked, or its reply cannot be read.
        """
        until = monotonic() + _PATIENCE
        try:
            with self.understood():
                reply, _ = await persist(driver, action, until, unreachable_until=0.0)
        except Unreachable as error:
            raise LockBackendError(str(error)) from error
        except LinkBroken as error:
            raise LockBackendError(f"{self.description} does not answer: {error}") from error
        return reply

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Raise LockBackendError for what reading a reply raises.

        The server is none of ours, or others write our keys.

        Arguments of callers are checked outside.
        """
        try:
            yield
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise LockBackendError(
                f"{self.description} sent a reply that cannot be read ({type(error).__name__}: "
                f"{error}). Either it is no Redis or Valkey, or other programs write to the keys "
                "of locks"
            ) from error


Question = Callable[[Backend, Driver], Coroutine[Any, Any, T]]
"""What is to be found out, or done, on a server."""


known: dict[str | None, Backend] = {}
"""The backends in use, by what they were asked for as."""

_by_server: dict[str, Backend] = {}
"""The same, by what names the server: a default server may have a name, too."""


def backend_for(using: str | None) -> Backend:
    """Return the backend that `using` names; None means the default server.

    Raises:
        ImproperlyConfigured: `using` or a setting is wrong.
        TypeError: `using` is not a string.
    """
    try:
        return known[using]
    except (KeyError, TypeError):  # a TypeError: it can't be looked up
        optional_text(using, "using")
        # Not above, as in `Backend`.
        from redis_locks.connections.resolution import resolve

        settings = get_settings()
        server = settings.server(using)
        if server not in _by_server:
            backend = Backend(resolve(using), settings.prefix, settings.partitions)
            _by_server.setdefault(server, backend)
        return known.setdefault(using, _by_server[server])


def blocking_answer(using: str | None, question: Question[T]) -> T:
    """Return what `question` finds out on the server `using`; blocks."""
    backend = backend_for(using)
    with backend.understood():
        return run_blocking(question(backend, backend.driver))


async def async_answer(using: str | None, question: Question[T]) -> T:
    """Return what `question` finds out on the server `using`."""
    backend = backend_for(using)
    driver, _ = backend.of_loop()
    with backend.understood():
        return await question(backend, driver)


def described(description: str) -> Backend | None:
    """Return the backend in use whose server is so described; None if there is none."""
    return next((b for b in list(known.values()) if b.description == description), None)


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"CACHES", "REDIS_LOCKS"}:
        for backend in list(known.values()):
            backend.driver.drop_idle()  # closed now, not by whoever collects garbage
        known.clear()
        _by_server.clear()


setting_changed.connect(_forget, dispatch_uid="redis_locks.connections.backends")
