"""The address of a client's server, with all that another process needs to connect there."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import redis

_OF_TLS = (
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_cert_reqs",
    "ssl_check_hostname",
)
"""What redis-py reads from an address, too."""


def url_of(conn: redis.Redis) -> str:
    """The address that a client's connections go to, with its user, its password, and its TLS files."""
    pool = conn.connection_pool
    options = pool.connection_kwargs
    if options.get("path"):
        return url_through(conn, options["path"])
    is_encrypted = issubclass(pool.connection_class, redis.SSLConnection)
    host = str(options.get("host") or "localhost")
    place = f"[{host}]" if ":" in host else host
    of_tls = {name: options[name] for name in _OF_TLS if options.get(name) is not None}
    query = f"?{urlencode(of_tls)}" if of_tls else ""
    scheme = "rediss" if is_encrypted else "redis"
    return f"{scheme}://{_credentials(options)}{place}:{options.get('port') or 6379}/{options.get('db') or 0}{query}"


def url_through(conn: redis.Redis, path: str) -> str:
    """The address of the same database through a unix socket in front of the server."""
    options = conn.connection_pool.connection_kwargs
    return f"unix://{_credentials(options)}{quote(path)}?db={options.get('db') or 0}"


def _credentials(options: dict[str, object]) -> str:
    user, password = (
        quote(str(options.get(name) or ""), safe="") for name in ("username", "password")
    )
    return f"{user}:{password}@" if user or password else ""
