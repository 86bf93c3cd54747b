from __future__ import annotations

from tests.support.fixtures import (
    hold,
    interrupted_downgrade,
    listening,
    own_side,
    server_side,
    tasks,
    world,
)
