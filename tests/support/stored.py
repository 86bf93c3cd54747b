"""What the server keeps of one lock, for tests that look at it or change it behind our back.

`lock` is the lock's hash, as `tests.support.keys` names it; `redis_locks/scripts/_lock.lua` says
what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PLACE = re.compile(rb"-?\d+")
_NEW = b"3 0 0 0 0"
_SHARED_UNTIL, _FENCE, _EXPIRES = 1, 2, 3


_WITHOUT_EXPIRY = """
local found = {}
for _, key in ipairs(redis.call("KEYS", ARGV[1])) do
    if redis.call("TTL", key) == -1 then found[#found + 1] = key end
end
return found
"""


def without_expiry(client: Any, pattern: str) -> set[bytes]:
    """Return the keys of a pattern that would stay for good.

    All in one round trip, for there may be thousands.
    """
    return set(client.eval(_WITHOUT_EXPIRY, 0, pattern))


def fence(client: Any, lock: bytes) -> int:
    """Return the last fencing token given out."""
    return int(client.hget(lock, "state").split()[_FENCE])


def set_fence(client: Any, lock: bytes, token: int) -> None:
    """Let the next fencing token be above `token`, as if the clock had been ahead."""
    state = (client.hget(lock, "state") or _NEW).split()
    state[_FENCE] = b"%d" % token
    set_state(client, lock, state)
    client.pexpire(lock, 3_600_000)


def set_state(client: Any, lock: bytes, state: list[bytes]) -> None:
    """Write the lock's own numbers; `_lock.lua` says what they are."""
    client.hset(lock, "state", b" ".join(state))


@contextmanager
def held_by_another_protocol(client: Any, lock: bytes) -> Iterator[None]:
    """Let a lock that somebody holds look as if a version with another protocol had granted it."""
    ours = client.hget(lock, "state").split()
    set_state(client, lock, [b"2", *ours[1:]])
    yield
    set_state(client, lock, ours)


def holder(client: Any, lock: bytes) -> bytes | None:
    """Return the token of the exclusive holder, even if its lease has ended."""
    kept = client.hget(lock, "holder")
    return kept.split(b" ")[0] if kept else None


def lease_left_ms(client: Any, lock: bytes) -> int:
    """Return what is left of the exclusive holder's lease; -2 if nobody holds."""
    # The time first: else a lease that is extended in between would seem to have ended.
    seconds, microseconds = client.time()
    kept = client.hget(lock, "holder")
    now = seconds * 1000 + microseconds // 1000
    return max(int(kept.split(b" ")[1]) - now, -2) if kept else -2


def set_lease_end(client: Any, lock: bytes, ends_ms: int) -> None:
    """Let the exclusive holder's lease end then, by the server's clock."""
    token, _ = client.hget(lock, "holder").split(b" ")
    client.hset(lock, "holder", b"%b %d" % (token, ends_ms))


def end_lease_in(client: Any, lock: bytes, milliseconds: int) -> None:
    """Let the exclusive holder's lease end so long from now."""
    seconds, microseconds = client.time()
    set_lease_end(client, lock, seconds * 1000 + microseconds // 1000 + milliseconds)


def end_lease(client: Any, lock: bytes) -> None:
    """Let the exclusive holder's lease end now."""
    set_lease_end(client, lock, 1)


def drop_holder(client: Any, *locks: bytes) -> None:
    """Take the exclusive hold of each lock away, without handing it on."""
    for lock in locks:
        client.hdel(lock, "holder", "claim", "who", "label")


def lose_sharers(client: Any, lock: bytes, sharers: bytes) -> None:
    """Let the leases of all who share a lock have ended, and their set be gone."""
    client.delete(sharers)
    state = client.hget(lock, "state").split()
    state[_SHARED_UNTIL] = b"1"
    set_state(client, lock, state)


def line(client: Any, lock: bytes) -> list[bytes]:
    """Return the tokens of the waiters in order."""
    entries = {int(f): v for f, v in client.hgetall(lock).items() if _PLACE.fullmatch(f)}
    return [entries[place].split(b" ")[0] for place in sorted(entries)]


def claim_of_waiter(client: Any, lock: bytes, token: str) -> bytes:
    """Return the claim of a waiter."""
    entry: bytes = client.hget(lock, client.hget(lock, token))
    return entry.split(b" ", 1)[1]


def set_claim_of_waiter(client: Any, lock: bytes, token: str, claim: bytes | str) -> None:
    """Change the claim of a waiter."""
    claim = claim.encode() if isinstance(claim, str) else claim
    client.hset(lock, client.hget(lock, token), token.encode() + b" " + claim)


def age_wait(client: Any, lock: bytes, token: str, by_ms: int) -> int:
    """Let a waiter have waited for so much longer; return since when, by the server's clock."""
    fence, since, rest = claim_of_waiter(client, lock, token).split(b" ", 2)
    earlier = int(since) - by_ms
    set_claim_of_waiter(client, lock, token, b"%b %d %b" % (fence, earlier, rest))
    return earlier


def drop_place(client: Any, lock: bytes, token: str) -> None:
    """Take a waiter's place away, without telling anybody."""
    client.hdel(lock, client.hget(lock, token), token)


def set_line(client: Any, lock: bytes, claims: dict[str, str]) -> None:
    """Put those in line, in this order, for a lock that nobody holds; the key goes after 60 s."""
    places = range(1, len(claims) + 1)
    entries = {
        place: f"{token} {claim}"
        for place, (token, claim) in zip(places, claims.items(), strict=True)
    }
    client.hset(lock, mapping={"state": _NEW, "line": f"1 {len(claims)} {len(claims)}"})
    client.hset(lock, mapping={**entries, **dict(zip(claims, places, strict=True))})
    client.pexpire(lock, 60_000)


def drop_line(client: Any, lock: bytes) -> None:
    """Take all waiters' places away."""
    for token in line(client, lock):
        drop_place(client, lock, token.decode())
    client.hdel(lock, "line")


def move_last(client: Any, lock: bytes, by: int) -> None:
    """Let the last waiter stand so many places further back, as if all between had left."""
    first, last, waiting = client.hget(lock, "line").split()
    entry, further = client.hget(lock, last), int(last) + by
    client.hdel(lock, last)
    numbers = b"%b %d %b" % (first, further, waiting)
    client.hset(lock, mapping={further: entry, entry.split(b" ")[0]: further, "line": numbers})


def in_use(client: Any, lock: bytes) -> set[str]:
    """Return what is there of "holder", "sharers" and "queue", the parts of a lock in use."""
    fields = {field.decode(errors="replace") for field in client.hkeys(lock)}
    rest = fields - {"state", "line", "holder", "claim", "who", "label", "late"}
    found = {"holder"} if living_holder(client, lock) else set()
    if line(client, lock):
        found.add("queue")
    elif rest:
        found.add("sharers")
    return found


def is_idle(client: Any, lock: bytes) -> bool:
    """Whether nobody holds the lock, shares it or waits for it: only its fencing token is left."""
    return not in_use(client, lock)


def expire_soon(client: Any, lock: bytes, left_ms: int) -> None:
    """Let the lock's hash go so soon, as if it had been kept for nearly as long as it should."""
    state = client.hget(lock, "state").split()
    seconds, _ = client.time()
    state[_EXPIRES] = b"%d" % (seconds * 1000 + left_ms)
    set_state(client, lock, state)
    client.pexpire(lock, left_ms)


def living_holder(client: Any, lock: bytes) -> list[bytes] | None:
    """Return the exclusive holder's token, lease end, fencing token, and so on; None if free."""
    kept, claim = client.hmget(lock, "holder", "claim")
    living = kept and lease_left_ms(client, lock) >= 0
    return [*kept.split(b" "), *claim.split(b" ")] if living else None


def lease_ends_ms(client: Any, lock: bytes) -> int:
    """Return when the exclusive holder's lease ends, by the server's clock; 0 if nobody holds."""
    kept = client.hget(lock, "holder")
    return int(kept.split(b" ")[1]) if kept else 0


def set_lease_left(client: Any, lock: bytes, left_ms: int) -> None:
    """Let so much be left of the exclusive holder's lease, from now on."""
    seconds, microseconds = client.time()
    set_lease_end(client, lock, seconds * 1000 + microseconds // 1000 + left_ms)


def claims_of_waiters(client: Any, lock: bytes) -> list[bytes]:
    """Return the claims of the waiters in order."""
    return [claim_of_waiter(client, lock, token.decode()) for token in line(client, lock)]


_KINDS_KEPT = {"index", "late", "looks", "long_waits"}
"""The keys that outlast the last hold for a while, but for statistics."""


def left_over(client: Any) -> list[str]:
    """Return the keys of locks that are there though nobody holds or waits."""
    found = [key for key in client.scan_iter("redis_locks{*", count=1000) if b"}:" in key]
    return sorted(
        key.decode()
        for key in found
        if key.split(b"}:")[1].partition(b":")[0].decode() not in _KINDS_KEPT
        and not (b"}:lock:" in key and is_idle(client, key))
    )
