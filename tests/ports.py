"""TCP ports on loopback, for servers that cannot do with a unix socket."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with_each = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in with_each]
    for each in with_each:
        each.close()
    return ports
