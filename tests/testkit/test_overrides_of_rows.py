"""`override_locks` and locks of rows."""

from __future__ import annotations

import re

import pytest

from redis_locks import LockNotAvailable
from redis_locks.rows import lock_model, lock_rows
from redis_locks.testing import override_locks
from tests.ledger.models import Counter
from tests.support.rows import row_of

pytestmark = pytest.mark.django_db


@override_locks("busy")
def test_busy_rows_are_named() -> None:
    row = Counter.objects.create(name="busy")
    name = re.escape(row_of(Counter, "default", row.pk).name)
    with pytest.raises(LockNotAvailable, match=f"{name}\\b"), lock_rows(row, nowait=True):
        pass
    whole = re.escape(lock_model(Counter).name)
    with pytest.raises(LockNotAvailable, match=f"{whole}(?!:)"), lock_model(Counter, nowait=True):
        pass
