"""The entries of REDIS_LOCKS: how the value of each is read, and what to say of a wrong one."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction, signature
from typing import Final, Literal, NamedTuple, cast, get_args

from django.utils.module_loading import import_string

from redis_locks.values.arguments import flag, one_of, whole_number
from redis_locks.values.durations import MAX_SECONDS, lease_ms, seconds, span_seconds, wait_seconds

MAX_PREFIX_BYTES = 128
MAX_REPLICAS = 100
MAX_HISTORY = 1000
"""Most past holds of a lock that the server keeps: about 200 KB, of at most 2,000 locks."""
LEAST_CONNECTIONS, MOST_CONNECTIONS = 10, 10_000
"""Bounds of MAX_CONNECTIONS: two connections only listen, and each other one may need a second one
for large replies.
"""
MAX_PARTITIONS = 16_384
"""A Redis Cluster has this many hash slots; more partitions would share them."""

_SERVER_NAME: Final = re.compile(r"[\w-]{1,100}")

error_status: Final = whole_number(400, 599)
"""Returns an HTTP status that a view may answer contention with; raises TypeError, ValueError."""


OnUnavailable = Literal["raise", "respond", "proceed"]
"""What happens when the server of a lock cannot be asked: see `Lock`."""


def _connection(value: object, entry: str) -> str:
    # The value is not shown: it may be a mapping or a URL with a password in it.
    if not isinstance(value, str):
        raise TypeError(f"{entry} must be a string, not a {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"{entry} must not be empty")
    return value


def _servers(value: object, entry: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{entry} must be a dictionary such as {{'billing': 'redis://...'}}, not a "
            f"{type(value).__name__}"
        )
    for name in value:
        # Else it would hide a URL or a dotted path, or could not be typed.
        if not isinstance(name, str) or not _SERVER_NAME.fullmatch(name):
            msg = f"{entry} may name a server with letters, digits, '-' and '_', not with {name!r}"
            raise ValueError(msg)
    return {name: _connection(where, f"{entry}[{name!r}]") for name, where in value.items()}


def _prefix(value: object, entry: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{entry} must be a string, not {value!r}")
    unfit = any(c in "{}" or c.isspace() or not c.isprintable() for c in value)
    if not value or unfit or len(value.encode()) > MAX_PREFIX_BYTES:
        raise ValueError(
            f"{entry} must be 1 to {MAX_PREFIX_BYTES} bytes of printable text without "
            f"spaces or braces, not {value!r}"
        )
    return value


def _deadlock_timeout(value: object, entry: str) -> float:
    number = seconds(value, entry)
    if not 0 < number <= MAX_SECONDS:
        raise ValueError(f"{entry} must be greater than 0 and at most a year, not {value!r}")
    return number


def _lease(value: object, entry: str) -> float:
    return lease_ms(value, entry) / 1000


def _or_none(read: Callable[[object, str], object]) -> Callable[[object, str], object]:
    return lambda value, entry: None if value is None else read(value, entry)


TELEMETRY: Final = {
    "opentelemetry": ("opentelemetry.metrics", "opentelemetry-api"),
    "prometheus": ("prometheus_client", "prometheus-client"),
}
"""For what TELEMETRY may name, the module that it imports and the package that has it."""


def _telemetry(value: object, entry: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{entry} must be a list such as ['prometheus'], not {value!r}")
    for name in value:
        if not isinstance(name, str) or name not in TELEMETRY:
            raise ValueError(f"{entry} may name {' and '.join(map(repr, TELEMETRY))}, not {name!r}")
        module, package = TELEMETRY[name]
        if not _is_installed(module):
            raise ValueError(f"{entry} names {name!r}, but the package {package} is not installed")
    return tuple(value)


def _alerts(value: object, entry: str) -> object:
    # Not imported above: projects without alerts of their own do not need it at start.
    from redis_locks.values.lock_alert import LockAlert

    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{entry} must be a list of LockAlert, not {value!r}")
    labels = set()
    for alert in value:
        if not isinstance(alert, LockAlert):
            raise TypeError(f"{entry} must contain only LockAlert, not {alert!r}")
        if alert.label in labels:
            msg = f"{entry} has two alerts with the label {alert.label!r}; give one another label="
            raise ValueError(msg)
        labels.add(alert.label)
    return tuple(value)


NameFunction = Callable[[str, str], object]
"""Gets a name as code gives it, and what it is of; returns the name on the server."""


def _name_function(value: object, entry: str) -> NameFunction:
    if not isinstance(value, str):
        msg = f"{entry} must be a dotted path such as 'project.tenants.lock_name', not {value!r}"
        raise TypeError(msg)
    try:
        function: object = import_string(value)
    except Exception as error:  # whatever a module raises
        msg = f"{entry} names {value!r}, which cannot be imported ({type(error).__name__}: {error})"
        raise ValueError(msg) from error
    if not callable(function) or isinstance(function, type) or iscoroutinefunction(function):
        raise TypeError(
            f"{entry} must name a plain function of a name and its kind; {value!r} is {function!r}"
        )
    try:
        signature(function).bind("name", "lock")
    except TypeError:
        msg = f"{entry} is called as function(name, kind), which {value!r} cannot take"
        raise TypeError(msg) from None
    except ValueError:
        pass  # something in C without a signature
    return cast("NameFunction", function)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what is before the dot
        return False


class Entry(NamedTuple):
    """One entry: what reads its value or raises, and how to put it right."""

    read: Callable[[object, str], object]
    hint: str


ENTRIES: Mapping[str, Entry] = {
    "CONNECTION": Entry(
        _connection,
        "Give a CACHES alias, or a redis://, valkey://, unix://, redis+sentinel:// or "
        "redis+cluster:// URL. The dotted path of a callable that returns a redis.Redis or a "
        "redis.RedisCluster will do, too.",
    ),
    "SERVERS": Entry(
        _servers,
        "Give each server a name, and a value as for CONNECTION. Choose one by using='billing'; "
        "'default' stands in for CONNECTION.",
    ),
    "PREFIX": Entry(_prefix, 'Use a short word such as "redis_locks".'),
    "NAME_FUNCTION": Entry(
        _or_none(_name_function),
        "Give the dotted path of a function of a name and its kind that returns the name on the "
        "server, or None.",
    ),
    "WAIT": Entry(wait_seconds, "Give seconds, 0 to not wait at all, or None to wait for ever."),
    "REQUEST_DEADLINE": Entry(
        wait_seconds, "Give the seconds that all waits of a request may take together, or None."
    ),
    "REPLY_TIMEOUT": Entry(
        span_seconds,
        "Give the seconds after which a call gives up a server that says nothing, such as 2.0.",
    ),
    "RELEASE_TIMEOUT": Entry(
        span_seconds,
        "Give the seconds for which a release waits for its server, such as 5.0. Afterwards it "
        "goes on in the background.",
    ),
    "LEASE": Entry(_lease, "Give seconds greater than 0, such as 10.0."),
    "RENEW": Entry(flag, "True renews holds in the background."),
    "MAX_HOLD": Entry(
        _or_none(span_seconds),
        "Give the seconds for which holds are renewed while their event loop stands still; None "
        "is 30 leases.",
    ),
    "DEADLOCK_TIMEOUT": Entry(
        _or_none(_deadlock_timeout),
        "Give the seconds after which a wait looks for a deadlock, or None to look only when "
        "another waiter asks.",
    ),
    "LOG_LOCK_WAITS": Entry(
        flag, "True warns in the log of each wait that lasts longer than DEADLOCK_TIMEOUT."
    ),
    "STATISTICS": Entry(flag, "True counts what happens to each lock, for the admin's figures."),
    "HISTORY": Entry(
        whole_number(0, MAX_HISTORY),
        "Give the number of past holds to keep for each lock, such as 50; 0 keeps none.",
    ),
    "WARN_ORDER": Entry(
        _or_none(flag),
        "True warns in the log of locks taken in opposite orders; None does so if DEBUG is on.",
    ),
    "PARTITIONS": Entry(
        whole_number(1, MAX_PARTITIONS),
        "Leave it at 1 unless the server is a cluster; then 64 is a good number.",
    ),
    "REPLICAS": Entry(
        whole_number(0, MAX_REPLICAS),
        "Give the number of replicas that have to know of a grant before it counts; 0 asks none.",
    ),
    "MAX_CONNECTIONS": Entry(
        whole_number(LEAST_CONNECTIONS, MOST_CONNECTIONS),
        "Give the most connections that the threads of a process may open to one server, such as "
        "64.",
    ),
    "CONFLICT_STATUS": Entry(
        error_status, "Give the HTTP status of a view whose lock is held, such as 423 or 409."
    ),
    "ON_UNAVAILABLE": Entry(
        one_of(*get_args(OnUnavailable)),
        "Say what happens when Redis cannot be asked: 'respond' lets views answer 503, 'proceed' "
        "runs without the lock.",
    ),
    "TELEMETRY": Entry(
        _telemetry, "Name where metrics go, and install the package for it; [] sends none."
    ),
    "ALERTS": Entry(
        _or_none(_alerts),
        'Give rules such as LockAlert("oldest_wait", above=60); None is the default rules, [] is '
        "none.",
    ),
}
