"""TCP ports on loopback, for servers that cannot do with a unix socket."""

from __future__ import annotations

import socket
from contextlib import suppress
from random import SystemRandom

# Below those that systems give to outgoing connections: one of them could take the port before the
# server does.
PORTS = range(10_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    # Hypothesis seeds the usual generator: all processes would choose the same.
    chance = SystemRandom()
    free: set[int] = set()
    while len(free) < count:
        with suppress(OSError), socket.create_server(("127.0.0.1", chance.choice(PORTS))) as bound:
            free.add(bound.getsockname()[1])
    return list(free)
