"""Ways in which the scripts could be wrong, each of which the machine must find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from redis_locks import scripts


class Mutant(NamedTuple):
    """A mistake in one file of Lua."""

    part: str
    right: str
    wrong: str


MUTANTS = {
    "a release that does not compare tokens": Mutant(
        "_held", "not held or string.sub(held, 1, #start) ~= start", "not held"
    ),
    "a hand-off that skips the head of the queue": Mutant(
        "_queue",
        'local first = call("LINDEX", QUEUE .. name, 0)\n      if',
        'local first = call("LINDEX", QUEUE .. name, -1)\n      if',
    ),
    "a lease that ends a millisecond early": Mutant("_modes", "text(clock() - 1)", "text(clock())"),
    "one permit too many": Mutant("_modes", "count < capacity_beside", "count <= capacity_beside"),
    "an upgrade that leaves its share behind": Mutant("_modes", "unshare(name, { from })", ""),
    "a set that keeps a part": Mutant("release", "ipairs(all)", "ipairs({ all[1] })"),
    "a newcomer that overtakes": Mutant(
        "_free", "SHARERS .. name, QUEUE .. name", "SHARERS .. name, SHARERS .. name"
    ),
    "a grant that nobody hears but counts": Mutant("_told", "heard > 0", "heard >= 0"),
    "a hold of a set that takes only the first lock": Mutant(
        "_modes",
        "for place, name in ipairs(locks) do\n    local here",
        "for place, name in ipairs({ locks[1] }) do\n    local here",
    ),
    "a fencing token that comes twice": Mutant(
        "_prelude", "return math.max(fence + 1, now_us)", "return fence"
    ),
    "a wait given up that keeps its place": Mutant("abandon", "leave(all, token)", ""),
    "a wait given up that keeps the others waiting": Mutant("abandon", "settle(all)", ""),
    "a cancelled wait for a set that leaves one queue only": Mutant(
        "cancel", "leave(locks, waiter)", "leave({ name }, waiter)"
    ),
    "a downgrade that lets nobody in": Mutant("downgrade", "settle(all)", ""),
    "a hand-over that starts a new fencing token": Mutant(
        "adopt", "text(math.max(tonumber(fence), fence_now))", "text(tonumber(fence) - 1)"
    ),
    "sharers that are not counted down": Mutant(
        "_modes", 'call("HINCRBY", CLAIMS .. name, kind(mode), -1)', "local _ = 0"
    ),
    "shared beside exclusive": Mutant(
        "_modes",
        "if exclusive(name) then\n    return false",
        'if exclusive(name) then\n    return kind(mode) == "shared"',
    ),
    "the dead that keep the living from sharing": Mutant("_queue", "living = aside\n", "break\n"),
    "a set granted where it is not first everywhere": Mutant(
        "_queue", "stands and #locks > 1 and", "stands and #locks > 9 and"
    ),
    "a set handed on where it is not first everywhere": Mutant(
        "_leave", "for place = 2, size do", "for place = 2, 1 do"
    ),
    "a part handed on to one that wants more": Mutant(
        "_heir", "tonumber(wanted) == size", "tonumber(wanted) >= size"
    ),
    "a set that is granted though a part is held": Mutant(
        "_free", "for place = 1, size do", "for place = 1, 1 do"
    ),
    "a set that waits for its first lock only": Mutant(
        "_join",
        "for place = 1, size do\n        local queue",
        "for place = 1, 1 do\n        local queue",
    ),
    "an index that forgets nobody": Mutant("_leave", 'call("ZREM", index, unpack(names))', ""),
}


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Have the scripts with a mistake."""
    read = scripts._read

    def reading(package: str, part: str) -> bytes:
        text = read(package, part).decode()
        if part == mutant.part:
            assert text.count(mutant.right) == 1, mutant
            text = text.replace(mutant.right, mutant.wrong)
        return text.encode()

    scripts._read = reading  # type: ignore[assignment]
    try:
        _forget()
        yield
    finally:
        scripts._read = read
        _forget()


def _forget() -> None:
    for script in scripts.ALL:
        for kept in ("text", "sha"):
            vars(script).pop(kept, None)
