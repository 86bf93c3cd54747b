from __future__ import annotations

import pytest

from tests.contract.parties.ways import ROW
from tests.ledger.models import Counter
from tests.support.fixtures import own_prefix, server_side, tasks, world


@pytest.fixture
def row(request: pytest.FixtureRequest) -> None:
    """The row that `lock_rows` locks, where a test asks the database."""
    if request.node.get_closest_marker("django_db"):
        Counter.objects.create(name=ROW)
