"""Call the scripts as a plain redis-py client would, without any of the package's code."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import redis

from redis_locks import scripts
from redis_locks.scripts import Script
from redis_locks.values.keys import grant_channel, index_key, lock_keys, set_keys
from tests.support import stored

WHO = "web-1\t4711\tthread MainThread\tmanage.py runserver"
FOR_EVER = -1
FOREIGN = {b"theirs"}


class Bench:
    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client: Any = client
        self.name = name
        self.prefix = f"bench-{name}"
        self.keys = lock_keys(self.prefix, 0, name)
        self.index_key = index_key(self.prefix, 0)
        self.extension = scripts.EXTEND
        self._foreign: set[bytes] = set()
        self._asked: set[str] = set()
        self._subscriptions: list[Any] = []
        self._messages: defaultdict[Any, deque[list[str]]] = defaultdict(deque)

    def run(self, script: Script, token: str, *argv: object, names: Sequence[str] = ()) -> Any:
        keys = set_keys(self.prefix, 0, tuple(names) or (self.name,))
        return self.client.eval(script.text, len(keys), *keys, token, *argv)

    def words(
        self, script: Script, token: str, *argv: object, names: Sequence[str] = ()
    ) -> list[str]:
        """Run a script that replies with one line; the token it starts with must be ours."""
        first, *words = self.run(script, token, *argv, names=names).decode().split(" ")
        assert token == first
        return words

    def acquire(
        self,
        token: str,
        *,
        wait: int = 0,
        lease: int = 60_000,
        listener: str = "nobody",
        mode: str = "exclusive",
        names: Sequence[str] = (),
        max_waiting: int | None = None,
    ) -> list[str]:
        first = int(token not in self._asked)
        self._asked.add(token)
        argv = (lease, mode, WHO, listener, wait, first)
        argv += () if max_waiting is None else (0, max_waiting)
        return self.words(scripts.ACQUIRE, token, *argv, names=names)

    def queue_up(
        self, *tokens: str, wait: int = FOR_EVER, mode: str = "exclusive", names: Sequence[str] = ()
    ) -> None:
        """Stand in line while somebody else holds, each listening on a channel of its own."""
        for token in tokens:
            words = self.acquire(token, wait=wait, listener=token, mode=mode, names=names)
            assert "0" == words[0]

    def stand(
        self, token: str, names: Sequence[str] = (), mode: str = "exclusive", wait: int = FOR_EVER
    ) -> Any:
        """Stand in line as one that lives; return what it listens to."""
        heard = self.listen(token)
        self.queue_up(token, names=names, mode=mode, wait=wait)
        return heard

    def release(self, token: str, *, names: Sequence[str] = ()) -> bool:
        return self.words(scripts.RELEASE, token, names=names) == ["1"]

    def give_up(
        self, token: str, *, mode: str = "exclusive", names: Sequence[str] = ()
    ) -> list[str]:
        return self.words(scripts.GIVE_UP, token, mode, names=names)

    def extend(self, token: str, lease: int) -> list[str]:
        return self.words(self.extension, token, lease)

    def inspect(self, name: str = "") -> list[Any]:
        names = (name,) if name else ()
        return self.run(scripts.INSPECT, "", 1000, "first", 0, 0, names=names)

    def index(self, most: int = 1000) -> list[bytes]:
        packed, *_ = self.run(scripts.NAMES, "", 0, 0, most, 0)
        return packed.split(b"\0") if packed else []

    def channel(self, token: str) -> str:
        return grant_channel(self.prefix, token)

    def listen(self, token: str) -> Any:
        """Subscribe as `token` would and return the subscription."""
        subscription = self.client.pubsub()
        subscription.subscribe(self.channel(token))
        assert subscription.get_message(timeout=5)["type"] == "subscribe"
        self._subscriptions.append(subscription)
        return subscription

    def die(self, subscription: Any) -> None:
        """Let nobody listen there any more."""
        subscription.unsubscribe()
        while subscription.get_message(timeout=5)["type"] != "unsubscribe":
            pass  # what it was told before

    def heard(self, subscription: Any) -> list[str] | None:
        """Return the words of the next message; None if there is none."""
        pending = self._messages[subscription]
        # The reply to a ping comes after all messages sent before it.
        subscription.ping()
        while (message := subscription.get_message(timeout=5))["type"] == "message":
            pending.append(message["data"].decode().split(" "))
        return pending.popleft() if pending else None

    def holder(self) -> str | None:
        held = self.holders()
        return held[0] if held else None

    def holders(self, name: str = "") -> list[str]:
        return [token.decode() for token in self.inspect(name)[3][::3]]

    def holder_claim(self) -> str:
        return self.inspect()[3][2].decode()

    def lease_left(self) -> int:
        at_ms, _, _, held, *_ = self.inspect()
        return int(held[1]) - int(at_ms) if held else -2

    def queued(self, name: str = "") -> list[str]:
        return [token.decode() for token in self.inspect(name)[4][::2]]

    def fence(self) -> int:
        """Return the fencing token of the hold there is."""
        return int(self.holder_claim().split(" ")[0])

    def end_lease(self) -> None:
        """Let the holder's lease end now."""
        stored.end_lease(self.client, self.keys.lock)

    def drop_holder(self, name: str = "") -> None:
        """Take the exclusive hold away, as if it had never been."""
        stored.drop_holder(self.client, self.lock_key(name))

    def drop_line(self, name: str = "") -> None:
        """Take all waiters' places away."""
        stored.drop_line(self.client, self.lock_key(name))

    def last_fence(self, name: str = "") -> int:
        """Return the last fencing token given out or reserved."""
        return stored.fence(self.client, self.lock_key(name))

    def set_fence(self, token: int, name: str = "") -> None:
        stored.set_fence(self.client, self.lock_key(name), token)

    def is_idle(self, *names: str) -> bool:
        """Whether of these locks, and no others, only the fencing tokens are left."""
        locks = {self.lock_key(name) for name in names or ("",)}
        others = self.all_keys() - locks - {self.index_key}
        return not others and all(stored.is_idle(self.client, lock) for lock in locks)

    def lock_key(self, name: str = "") -> bytes:
        return lock_keys(self.prefix, 0, name or self.name).lock

    def put_foreign(self, key: str) -> bytes:
        """Put a key of a type that no lock uses in the way, until the bench is closed."""
        foreign: bytes = self.index_key if key == "index" else getattr(self.keys, key)
        self.client.delete(foreign)
        self.client.sadd(foreign, *FOREIGN)
        self._foreign.add(foreign)
        return foreign

    def is_untouched(self, foreign: bytes) -> bool:
        return self.client.smembers(foreign) == FOREIGN and self.client.ttl(foreign) == -1

    def all_keys(self) -> set[bytes]:
        return set(self.client.scan_iter(match=f"{self.prefix}*", count=1000))

    def everything(self) -> dict[bytes, object]:
        """Return what each key has, and when it ends.

        Not its DUMP, in whose order a hash's fields move as it grows.
        """
        read = {
            b"hash": self.client.hgetall,
            b"zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
        }
        return {
            key: (self.client.pexpiretime(key), read[self.client.type(key)](key))
            for key in self.all_keys()
        }

    def keys_without_expiry(self) -> list[bytes]:
        return list(stored.without_expiry(self.client, f"{self.prefix}*"))

    def close(self) -> None:
        if self._foreign:
            self.client.delete(*self._foreign)
        for subscription in self._subscriptions:
            subscription.close()
