from __future__ import annotations

from tests.support.fixtures import interrupted_downgrade, listening, server_side, tasks, world

__all__ = ["interrupted_downgrade", "listening", "server_side", "tasks", "world"]
