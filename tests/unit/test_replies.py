"""A reply counts for the token that it names, and for no other: a connection may be out of step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from time import monotonic
from typing import Any

import pytest

from redis_locks import scripts
from redis_locks.drivers.base import LinkBroken, run_blocking
from redis_locks.protocol import store
from redis_locks.protocol.store import Request
from redis_locks.values.keys import set_keys

KEYS = set_keys("p", 0, ("x",))
REQUEST = Request(KEYS, "token", 1000, "exclusive", "")


class Link:
    """One that answers each call with the same words, for `token`."""

    listener = "listener"

    def __init__(self, token: str, words: str) -> None:
        self.reply = f"{token} {words}".encode()

    async def call(self, *_: object, **__: object) -> Sequence[Any]:
        return [self.reply]


CALLS: dict[str, tuple[str, Callable[[Any], Coroutine[Any, Any, object]]]] = {
    "acquire": ("1 7 1000", lambda link: store.acquire(link, REQUEST, 0, monotonic())),
    "take": ("7 1000 1", lambda link: store.take(link, REQUEST, [[0]], 1)),
    "extend": (
        "1 1000 2000",
        lambda link: store.extend(link, scripts.EXTEND, KEYS, REQUEST.token, 1000),
    ),
    "raise_fence": ("1 1000 2000", lambda link: store.raise_fence(link, KEYS, "token", 1000, 7)),
    "adopt": ("1 1000 2000 7", lambda link: store.adopt(link, REQUEST, "token")),
    "release": ("1", lambda link: store.release(link, KEYS, "token")),
    "commit": (
        "1 ERR a command failed",
        lambda link: store.commit(link, KEYS, "token", store.Commands([], b"")),
    ),
    "downgrade": ("1", lambda link: store.downgrade(link, KEYS, "token")),
    "give_up": ("1000 0 ", lambda link: store.give_up(link, REQUEST)),
    "force_release": ("7 t", lambda link: store.force_release(link, KEYS, "token", ["t"])),
    "cancel": ("1", lambda link: store.cancel(link, KEYS, "token", "waiter")),
    "crash_release": ("1 0", lambda link: store.crash_release(link, KEYS, "token")),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_reply_that_names_another_token_breaks_the_connection(verb: str) -> None:
    words, call = CALLS[verb]
    assert run_blocking(call(Link("token", words)))
    for other in ("other", "token2", "tok"):
        with pytest.raises(LinkBroken, match="not for token token"):
            run_blocking(call(Link(other, words)))
