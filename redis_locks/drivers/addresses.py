"""URLs that name several servers: scheme://user:password@host:port,host:port/path?options.

`cluster_endpoint` and `sentinel_url` read theirs with it.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

Address = tuple[str, int]
"""Host and port of a server."""


class Parts(NamedTuple):
    """The parts of a URL, as they are written there."""

    scheme: str
    credentials: str
    """With the @ behind them, or empty."""
    hosts: str
    path: str
    """Without the slashes around it."""
    query: str


def parts(url: str) -> Parts:
    """Return the parts of a URL that names several servers.

    Python's `urlsplit` refuses an IPv6 address that stands beside other hosts, from 3.13.5 on.
    """
    scheme, _, rest = url.partition("#")[0].partition("://")
    rest, _, query = rest.partition("?")
    netloc, _, path = rest.partition("/")
    credentials, at, hosts = netloc.rpartition("@")
    return Parts(scheme, credentials + at, hosts, path.strip("/"), query)


def check_database(url: str) -> None:
    """Raise ValueError unless the URL names one database by its number, or none.

    redis-py takes 0 for most of what is no number.
    """
    scheme, _, _, path, query = parts(url)
    named = parse_qs(query, keep_blank_values=True).get("db", [])
    if scheme.partition("+")[0] == "unix":
        # A socket's path has no database behind it.
        if ".sock/" in path:
            msg = "the database of a unix socket is an option: unix:///path/redis.sock?db=1"
            raise ValueError(msg)
    elif scheme in {"redis", "rediss", "valkey", "valkeys"}:
        named += [path] if path else []
    else:
        named += [part for part in path.partition("/")[2:] if part]
    if not all(each.isdecimal() for each in named) or len({*map(int, named)}) > 1:
        raise ValueError("the database must be one whole number")


def addresses(hosts: str, *, port: int, form: str) -> list[Address]:
    """Return the servers that a URL names.

    Args:
        hosts: The part of the URL, without credentials.
        port: That of a server which is named without one.
        form: What such a URL looks like, for the error.

    Raises:
        ValueError: The part has another form.
    """
    found = [urlsplit(f"//{host}") for host in hosts.split(",")]
    if not all(split.hostname for split in found):
        raise ValueError(f"the form is {form}")
    return [(unquote(split.hostname or ""), split.port or port) for split in found]
