"""Several servers in one URL: host:port,host:port."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

Address = tuple[str, int]
"""Host and port of a server."""


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
        msg = f"the form is {form}"
        raise ValueError(msg)
    return [(unquote(split.hostname or ""), split.port or port) for split in found]
