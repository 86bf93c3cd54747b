from __future__ import annotations

from tests.internals.express.ways import both_ways, one_way
from tests.internals.silent.turns import turns
from tests.support.fixtures import listening, own_prefix, own_server, server_side, tasks, world

__all__ = [
    "both_ways",
    "listening",
    "one_way",
    "own_prefix",
    "own_server",
    "server_side",
    "tasks",
    "turns",
    "world",
]
