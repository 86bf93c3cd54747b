"""Addresses of a primary that Sentinels watch: redis+sentinel://host:port,host:port/service/db."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import redis
from redis.connection import parse_url
from redis.sentinel import Sentinel

from redis_locks.drivers.addresses import addresses, parts

SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
"""Each with the scheme of the connection to the primary."""

FORM = "redis+sentinel://user:password@host:port,host:port/service/db"
"""What such a URL looks like. User, password, ports and db may be left out."""

SENTINEL_PORT = 26379


def client_of_url(url: str) -> redis.Redis:
    """Return a client of the primary. Connects to nothing.

    User, password and options are those of the primary, but for the options `sentinel_username` and
    `sentinel_password`. With rediss+sentinel://, Sentinels are talked to over TLS as well.

    Raises:
        ValueError: The URL has another form.
        TypeError: redis-py does not know one of its options.
    """
    scheme, credentials, hosts, path, query = parts(url)
    service, _, db = path.partition("/")
    if not hosts or not service or (db and not db.isdecimal()):
        raise ValueError(f"the form is {FORM}")
    scheme = SCHEMES[scheme]
    plain = f"{scheme}://{credentials}primary/{db or 0}?{query}"
    options: dict[str, Any] = parse_url(plain)  # type: ignore[no-untyped-call]
    del options["host"]
    options.pop("connection_class", None)
    of_sentinels = {
        option: options.pop(f"sentinel_{option}")
        for option in ("username", "password")
        if f"sentinel_{option}" in options
    }
    if scheme == "rediss":
        options["ssl"] = True
        of_sentinels |= {name: value for name, value in options.items() if name.startswith("ssl")}
    sentinels = addresses(hosts, port=SENTINEL_PORT, form=FORM)
    sentinel = Sentinel(sentinels, sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]
    primary = unquote(service)
    client: redis.Redis = sentinel.master_for(primary, **options)  # type: ignore[no-untyped-call]
    return client
