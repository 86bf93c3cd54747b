"""What the replies to a transaction's packets mean, where no test makes a server give them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.exceptions import BusyLoadingError, ReadOnlyError

from redis_locks.optimistic.outcomes import LinkFailed, require_answers


class Link:
    def __init__(self, sentinels: object = None) -> None:
        self.endpoint = SimpleNamespace(sentinels=sentinels)
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("error", "sentinels", "is_failure"),
    [
        (BusyLoadingError("loading"), None, True),
        (ReadOnlyError("no primary"), object(), True),
        (ReadOnlyError("no primary"), None, False),
        (redis.ResponseError("wrong type"), object(), False),
    ],
)
def test_a_server_that_cannot_work_now_is_asked_again_on_another_connection(
    error: redis.RedisError, sentinels: object, is_failure: bool
) -> None:
    link: Any = Link(sentinels)
    with pytest.raises(LinkFailed if is_failure else type(error), match=str(error)):
        require_answers([b"OK", error], link)
    assert is_failure == link.closed
