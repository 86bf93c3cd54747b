"""Where a server is, and how to open connections to it.

`connections.resolution` makes an `Endpoint` from a setting; links and `manage.py locks doctor`
connect with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from time import monotonic
from typing import Any, Final

import redis
import redis.asyncio as aioredis
from redis import exceptions as redis_errors
from redis._parsers.base import BaseParser
from redis.asyncio import sentinel as async_sentinel
from redis.backoff import NoBackoff
from redis.connection import (
    AbstractConnection,
    BlockingConnectionPool,
    Connection,
    ConnectionPool,
    DefaultParser,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.retry import Retry
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from redis_locks.drivers.breaker import Breaker, Handshake, breaker_of
from redis_locks.drivers.connection_options import parameters, without_notifications
from redis_locks.drivers.resp import Reader, new_reader
from redis_locks.drivers.sentinel import Sentinels
from redis_locks.drivers.time_limits import seconds_left
from redis_locks.exceptions import LockBackendError

# What our connections decide by themselves, and what belongs to a pool of redis-py's.
_OURS = frozenset({
    "client_cache", "connection_pool", "decode_responses", "event_dispatcher",
    "health_check_interval", "legacy_responses", "lib_name", "lib_version", "parser_class",
    "protocol", "retry", "retry_on_error", "retry_on_timeout",
})  # fmt: skip
_CONNECT_FUNCTIONS = ("redis_connect_func", "valkey_connect_func")
_OF_POOLS = ("cache", "maint_", "maintenance_", "orig_", "oss_cluster_maint_")

_ASYNC_TWIN: dict[type[Any], type[Any]] = {
    SentinelManagedSSLConnection: async_sentinel.SentinelManagedSSLConnection,
    SentinelManagedConnection: async_sentinel.SentinelManagedConnection,
    SSLConnection: aioredis.SSLConnection,
    UnixDomainSocketConnection: aioredis.UnixDomainSocketConnection,
    Connection: aioredis.Connection,
}
_BLOCKING_TWIN = {twin: blocking for blocking, twin in _ASYNC_TWIN.items()}


_UNBOUNDED = ConnectionPool().max_connections
_USUAL_RETRY = redis.Redis().connection_pool.connection_kwargs["retry"]

_USUAL_TIMEOUT = redis.Redis().connection_pool.connection_kwargs.get("socket_timeout")

DEFAULT_TIMEOUT = 2.0
"""Seconds until an unanswered connect or command counts as failed, unless the client or
REPLY_TIMEOUT says otherwise.
"""


CLOSED: Final = "Connection closed by server."
"""What redis-py says when the other side ends a connection in mid-handshake."""


class Shape:
    """How replies look on connections that carry the user's commands: as with the user's client."""

    __slots__ = ("_errors", "encoding", "options")

    def __init__(self, pool: Any) -> None:
        given, encoder = pool.connection_kwargs, pool.get_encoder()
        self.encoding: str | None = encoder.encoding if encoder.decode_responses else None
        """In what replies are text; None: they are bytes."""
        self._errors: str = encoder.encoding_errors
        self.options: dict[str, Any] = {
            option: given[option]
            for option in ("decode_responses", "legacy_responses", "protocol")
            if option in given
        }
        """The options of redis-py's connections that say so."""

    def reader(self) -> Reader:
        """Return a parser whose errors are redis-py's."""
        reader = new_reader(BaseParser.parse_error)
        self.decode(reader, wanted=True)
        return reader

    def decode(self, reader: Reader, *, wanted: bool) -> None:
        """Let a parser return text from now on, if the client does and `wanted`; else bytes."""
        reader.set_encoding(encoding=self.encoding if wanted else None, errors=self._errors)


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A server: the connection class, its arguments, and a name for people without password.

    Connections made here speak RESP3, because grants arrive beside replies, and never decode; those
    with a `shape` do as that says. They never retry by themselves, because the core repeats a call
    with its token.
    """

    connection_class: type[AbstractConnection]
    kwargs: Mapping[str, Any]
    description: str
    in_cluster: bool = False
    """Whether it is a node of a cluster. Its connections subscribe to partitions when they need
    them.
    """
    retry: Any = None
    """The client's `retry`, unless it is what redis-py gives each client."""
    unheeded: tuple[str, ...] = ()
    """What the client was told that means nothing to connections made here."""
    shape: Shape | None = None
    """How replies look to the user's code; None: the connections are for commands of ours."""
    default_timeout: float = DEFAULT_TIMEOUT
    """Seconds until an unanswered connect or command counts as failed, where the client does not
    say.
    """
    breaker: Breaker = field(init=False)
    """That of the server, whichever endpoint names it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "breaker", breaker_of(self.description))

    @classmethod
    def from_client(cls, client: redis.Redis) -> Endpoint:
        """Return the endpoint a redis-py client talks to. Connects to nothing."""
        return cls.from_pool(client.connection_pool)

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """Return the endpoint of a redis://, rediss:// or unix:// URL. Connects to nothing.

        Raises:
            ValueError: The URL has another scheme or an option redis-py does not know.
        """
        return cls.from_pool(ConnectionPool.from_url(url))

    @classmethod
    def from_pool(cls, pool: Any) -> Endpoint:
        """Return the endpoint of a connection pool of redis-py or valkey-py, blocking or asyncio.

        Raises:
            LockBackendError: The pool has connections that threads, or redis-py, cannot have.
        """
        given = pool.connection_kwargs
        kind = pool.connection_class
        kwargs = {
            key: value
            for key, value in given.items()
            if key not in _OURS and not key.startswith((*_CONNECT_FUNCTIONS, *_OF_POOLS))
        }
        if not issubclass(kind, AbstractConnection):
            kind, kwargs = _twin(kind, kwargs, _BLOCKING_TWIN | _twins_of_valkey(kind), "blocking")
        sentinels = given.get("connection_pool")
        if isinstance(sentinels, Sentinels):  # of a client that we have made
            kwargs["connection_pool"] = sentinels
        elif hasattr(pool, "sentinel_manager"):
            kwargs = {key: kwargs[key] for key in kwargs if key not in {"host", "port"}}
            kwargs["connection_pool"] = Sentinels.of_pool(pool)
        unheeded = [name for name in _CONNECT_FUNCTIONS if given.get(name)]
        if isinstance(pool, BlockingConnectionPool) or pool.max_connections != _UNBOUNDED:
            unheeded.append(f"max_connections={pool.max_connections}")
        retry = given.get("retry")
        return cls(
            kind,
            kwargs,
            _describe(kind, kwargs),
            retry=None if retry == _USUAL_RETRY else retry,
            unheeded=tuple(unheeded),
        )

    @property
    def sentinels(self) -> Sentinels | None:
        """The Sentinels to ask for the address before each connection; None: it is fixed."""
        found = self.kwargs.get("connection_pool")
        return found if isinstance(found, Sentinels) else None

    @property
    def subscribes(self) -> bool:
        """Whether each connection subscribes to a channel of its own as soon as it is open."""
        return not self.in_cluster and self.shape is None

    def reader(self) -> Reader:
        """Return a parser for what a connection receives."""
        return new_reader() if self.shape is None else self.shape.reader()

    def in_loop(self) -> tuple[type[Any], dict[str, Any]]:
        """Return the class of asyncio connections to this server, and their arguments.

        Raises:
            LockBackendError: redis-py has no such class, or that cannot do what an option wants.
        """
        sentinels = self.sentinels
        plain = {key: value for key, value in self.kwargs.items() if key != "connection_pool"}
        try:
            kind, kwargs = _twin(self.connection_class, plain, _ASYNC_TWIN, "async")
        except LockBackendError as error:
            raise LockBackendError(f"{self.description}: {error}") from None
        return kind, kwargs | ({"connection_pool": sentinels.in_loop} if sentinels else {})

    def pause_after(self, failures: int) -> float | None:
        """Return the seconds to pause after so many attempts to connect; None: give up.

        The client's `retry` says so.
        """
        # `_retries` has a public name from redis-py 6 on, `_backoff` has none.
        if self.retry is None or 0 <= self.retry._retries < failures:  # noqa: SLF001
            return None
        return float(self.retry._backoff.compute(failures))  # noqa: SLF001

    @property
    def connect_timeout(self) -> float:
        """Seconds until an unanswered connection attempt counts as failed."""
        value = self._given("socket_connect_timeout")
        return self.reply_timeout if value is None else float(value)

    @property
    def reply_timeout(self) -> float:
        """Seconds until an unanswered command counts as failed."""
        value = self._given("socket_timeout")
        return self.default_timeout if value is None else float(value)

    def _given(self, option: str) -> Any:
        """Return the seconds that the client was told.

        None: it was told nothing, or what redis-py tells each client.
        """
        value = self.kwargs.get(option)
        return None if type(value) is int and value == _USUAL_TIMEOUT else value

    def with_reply_timeout(self, seconds: float) -> Endpoint:
        """Return the same server, whose commands count as failed after so many seconds.

        A time that the client was given comes first.
        """
        return replace(self, default_timeout=seconds)

    @property
    def may_have_successor(self) -> bool:
        """Whether Sentinels will name another server if it is gone."""
        return self.sentinels is not None

    def blocking_connection(self, within: float | None = None) -> AbstractConnection:
        """Return a new blocking connection, not yet connected.

        Its steps share the time that the thread has.

        `within`: seconds that each step takes at most, in place of the endpoint's.
        """
        return _in_time(self.connection_class)(  # type: ignore[arg-type]
            **{
                **self.kwargs,
                **self._common(self.connection_class),
                "parser_class": _InTimeParser,
                "retry": Retry(NoBackoff(), 0),
                "socket_timeout": within or self.reply_timeout,
                "socket_connect_timeout": within or self.connect_timeout,
            }
        )

    def found(self, within: float | None = None) -> Handshake:
        """Return what a new connection comes to; an error reply is an answer, too.

        See `blocking_connection`. Blocks.
        """
        connection: Any = self.blocking_connection(within)
        try:
            connection.connect()
            connection.send_command("PING")
            connection.read_response()
        except redis_errors.AuthenticationError:
            return Handshake.ANSWERED
        except (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError) as error:
            return Handshake.REFUSED if is_refused(error) else Handshake.UNHEARD
        except Exception:  # noqa: BLE001 - an error reply, or the user's code
            # Whoever asks next is told.
            return Handshake.ANSWERED
        finally:
            connection.disconnect()
        return Handshake.ANSWERED

    def async_connection(self) -> Any:
        """Return a new, unconnected asyncio connection, whose reads never time out by themselves.

        Raises:
            LockBackendError: There is none; see `in_loop`.
        """
        kind, kwargs = self.in_loop()
        return kind(**{**kwargs, **self._common(kind), "socket_timeout": None})

    def _common(self, kind: type[Any]) -> dict[str, Any]:
        # Without a `protocol` the user's client speaks that of its release of redis-py: RESP2
        # before 8.
        ours = {"protocol": 3, "decode_responses": False}
        return {
            **without_notifications(kind),
            **(ours if self.shape is None else self.shape.options),
        }


def is_refused(error: BaseException | None, outer: BaseException | None = None) -> bool:
    """Return whether a connection failed at once: nobody listens, or the other side closed it.

    `outer`: what was being handled before that; see `sys.exception`.
    """
    while error is not None and error is not outer:
        if isinstance(error, (ConnectionError, FileNotFoundError)) or str(error) == CLOSED:
            return True
        error = error.__cause__ or error.__context__
    return False


def _shake_hands(connect: Callable[[], None]) -> None:
    """Connect. Raises ResponseError if HELLO is answered by no map.

    redis-py takes any answer for a map.
    """
    try:
        connect()
    except AttributeError as error:
        if error.name != "get":
            raise
        msg = "the answer to HELLO is no map"
        raise redis_errors.ResponseError(msg) from error


class _InTimeParser(DefaultParser):  # type: ignore[misc, valid-type]
    """Reads a reply of a handshake until a moment, whatever the pieces in which it comes."""

    until = inf

    def read_from_socket(self, *_: Any, **__: Any) -> Any:
        left = self.until - monotonic()
        if left <= 0:
            raise redis_errors.TimeoutError("Timeout reading from socket")
        return super().read_from_socket(timeout=left)


@cache
def _in_time(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """Return the same connections, each step of which takes no longer than the thread has."""

    class InTime(kind):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            _shake_hands(super().connect)

        def _connect(self) -> Any:
            self.socket_connect_timeout: float = seconds_left(self.socket_connect_timeout)
            return super()._connect()

        def read_response(self, *args: Any, **options: Any) -> Any:
            self._parser.until = monotonic() + seconds_left(self.socket_timeout)
            return super().read_response(*args, **options)

    for name in (
        "host",
        "port",
    ):  # redis-py names them when a connection fails, even of a socket which has neither
        if not hasattr(kind, name):
            setattr(InTime, name, None)
    InTime.__name__, InTime.__qualname__ = kind.__name__, kind.__qualname__
    return InTime


def _twins_of_valkey(kind: type[Any]) -> dict[type[Any], type[Any]]:
    """Return redis-py's blocking class of the same name, if this is a connection of valkey-py."""
    names = {each.__name__: each for each in _ASYNC_TWIN}
    ours = kind.__module__.partition(".")[0] == "valkey" and kind.__name__ in names
    return {kind: names[kind.__name__]} if ours else {}


def _twin(
    kind: type[Any], kwargs: Mapping[str, Any], twins: Mapping[type[Any], type[Any]], world: str
) -> tuple[type[Any], dict[str, Any]]:
    """Return the class of the same connections in the other world, and the arguments it takes.

    Raises:
        LockBackendError: There is none, or an argument that it does not take has been given.
    """
    twin = twins.get(kind)
    if twin is None:
        msg = f"{kind.__module__}.{kind.__qualname__} has no {world} twin in redis-py"
        raise LockBackendError(msg)
    taken, known = (parameters(each) for each in (twin, kind))  # type: ignore[arg-type]
    for key in kwargs.keys() - taken:
        if key not in known or kwargs[key] != known[key].default:
            raise LockBackendError(f"{world} connections of redis-py have no option {key}")
    return twin, {key: value for key, value in kwargs.items() if key in taken}


def _describe(connection_class: type[Any], kwargs: Mapping[str, Any]) -> str:
    db = kwargs.get("db") or 0
    if "path" in kwargs:
        return f"unix://{kwargs['path']}?db={db}"
    encrypted = issubclass(connection_class, SSLConnection | aioredis.SSLConnection)
    scheme = "rediss" if encrypted else "redis"
    sentinels = kwargs.get("connection_pool")
    if isinstance(sentinels, Sentinels):
        return f"{scheme}+sentinel://{sentinels.where}/{sentinels.service_name}/{db}"
    return f"{scheme}://{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}/{db}"
