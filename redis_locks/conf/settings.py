"""The REDIS_LOCKS setting, read once and validated; nothing else reads it."""

from __future__ import annotations

import difflib
import enum
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from django.conf import settings as django_settings
from django.core.checks import Error
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from redis_locks.conf.validation import ENTRIES, NameFunction, OnUnavailable

if TYPE_CHECKING:
    from redis_locks.values.lock_alert import LockAlert


class Unset(enum.Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    # Enum's is a function in Python, and the options of each lock are looked up.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""For an argument that was not given: the value comes from REDIS_LOCKS when it is needed."""


DEFAULT_SERVER: Final = "default"
"""The name in SERVERS of what CONNECTION says otherwise."""

_CONNECTION: Final = "REDIS_LOCKS['CONNECTION']"


class Settings(NamedTuple):
    """The values of REDIS_LOCKS, with defaults filled in.

    ``wait``, ``lease`` and ``deadlock_timeout`` are seconds; ``wait`` may be 0 (do not wait) or
    None (wait for ever), ``deadlock_timeout`` None (look for deadlocks only when another waiter
    asks). ``servers`` are further values as ``connection``, by name. ``max_hold`` None means 30
    leases of the lock. ``warn_order`` None means as DEBUG of Django. ``request_deadline`` are the
    seconds for all waits of a request; None: no bound. ``reply_timeout`` are the seconds that a
    call gives a silent server, ``release_timeout`` those of a release. ``alerts`` None means
    `DEFAULT_ALERTS`. ``name_function`` None leaves names as they are given.
    """

    connection: str = "default"
    servers: Mapping[str, str] = MappingProxyType({})
    prefix: str = "redis_locks"
    wait: float | None = 10.0
    lease: float = 10.0
    renew: bool = True
    max_hold: float | None = None
    request_deadline: float | None = None
    reply_timeout: float = 2.0
    release_timeout: float = 5.0
    deadlock_timeout: float | None = 1.0
    log_lock_waits: bool = True
    statistics: bool = True
    history: int = 0
    warn_order: bool | None = None
    partitions: int = 1
    replicas: int = 0
    max_connections: int = 64
    conflict_status: int = 423
    on_unavailable: OnUnavailable = "respond"
    telemetry: tuple[str, ...] = ()
    alerts: tuple[LockAlert, ...] | None = None
    name_function: NameFunction | None = None

    def server(self, using: str | None) -> str:
        """Return what names the server that ``using`` asks for.

        It is an alias, a URL or a dotted path.
        """
        if using is None:
            return self.servers.get(DEFAULT_SERVER, self.connection)
        return self.servers.get(using, using)

    @property
    def server_names(self) -> tuple[str | None, ...]:
        """What to give as ``using`` to reach each configured server once; None is the default."""
        return None, *(name for name in self.servers if name != DEFAULT_SERVER)

    def entry(self, using: str | None) -> str:
        """Return the entry of REDIS_LOCKS that names this server, as source text, for messages."""
        if using is None and DEFAULT_SERVER in self.servers:
            using = DEFAULT_SERVER
        return f"REDIS_LOCKS['SERVERS'][{using!r}]" if using in self.servers else _CONNECTION

    @property
    def lease_ms(self) -> int:
        """The lease in milliseconds, as scripts take it."""
        return round(self.lease * 1000)


NOT_A_DICT = "redis_locks.E001"
UNKNOWN_ENTRY = "redis_locks.E002"
BAD_VALUE = "redis_locks.E003"


def problems(configured: object) -> list[Error]:
    """Everything that is wrong with a value of REDIS_LOCKS, and how to put it right."""
    if not isinstance(configured, Mapping):
        msg = f"REDIS_LOCKS must be a dictionary, not {type(configured).__name__}."
        hint = 'Write REDIS_LOCKS = {"CONNECTION": "default"}.'
        return [Error(msg, hint=hint, id=NOT_A_DICT)]
    unknown = [_unknown(key) for key in configured if key not in ENTRIES]
    checked = (_bad_value(key, configured[key]) for key in ENTRIES if key in configured)
    mistakes = unknown + [problem for problem in checked if problem is not None]
    servers = configured.get("SERVERS")
    if "CONNECTION" in configured and isinstance(servers, Mapping) and DEFAULT_SERVER in servers:
        msg = f"{_CONNECTION} and REDIS_LOCKS['SERVERS']['default'] both name the default server."
        mistakes.append(Error(msg, hint="Leave one of them out.", id=BAD_VALUE))
    return mistakes


def servers_of(configured: object) -> Settings | None:
    """Return the settings as far as they say where the servers are; None if they say it wrong."""
    if not isinstance(configured, Mapping):
        return None
    try:
        entries = {
            key.lower(): _read(key, configured[key])
            for key in ("CONNECTION", "SERVERS")
            if key in configured
        }
    except (TypeError, ValueError):
        return None
    return Settings(**cast("dict[str, Any]", entries))


def _unknown(key: object) -> Error:
    nearest = difflib.get_close_matches(str(key).upper(), ENTRIES, n=1)
    known = f"The entries are {', '.join(ENTRIES)}."
    hint = f"Did you mean {nearest[0]!r}?" if nearest else known
    return Error(f"REDIS_LOCKS has no entry {key!r}.", hint=hint, id=UNKNOWN_ENTRY)


def _bad_value(key: str, value: object) -> Error | None:
    try:
        _read(key, value)
    except (TypeError, ValueError) as error:
        return Error(f"{error}.", hint=ENTRIES[key].hint, id=BAD_VALUE)
    return None


def _read(key: str, value: object) -> object:
    return ENTRIES[key].read(value, f"REDIS_LOCKS[{key!r}]")


@functools.cache
def get_settings() -> Settings:
    """The validated settings, built on the first call and kept until they change.

    Raises:
        ImproperlyConfigured: REDIS_LOCKS is wrong; the text names entry, value and fix.
    """
    configured = getattr(django_settings, "REDIS_LOCKS", {})
    found = problems(configured)
    if found:
        raise ImproperlyConfigured(" ".join(f"{each.msg} {each.hint}" for each in found))
    values = {key.lower(): _read(key, value) for key, value in configured.items()}
    return Settings(**cast("dict[str, Any]", values))


def _forget(*, setting: str, **_: object) -> None:
    if setting == "REDIS_LOCKS":
        get_settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="redis_locks.conf.settings")
