from __future__ import annotations

from tests.internals.acquire.turns import turns
from tests.support.fixtures import listening, own_prefix, own_server, server_side, tasks, world
