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
        "_end", 'string.sub(found[1], 1, #token + 1) == token .. " "', "true"
    ),
    "a hand-off that skips the head of the queue": Mutant(
        "_queue",
        'local entry = call("HGET", state.key, text(state.first))',
        'local entry = call("HGET", state.key, text(state.last))',
    ),
    "a lease that ends a millisecond early": Mutant("_modes", "text(clock() - 1)", "text(clock())"),
    "one permit too many": Mutant("_modes", "count < capacity_beside", "count <= capacity_beside"),
    "an upgrade that leaves its share behind": Mutant("_modes", "unshare(name, { from })", ""),
    "a set that keeps a part": Mutant("release", "ipairs(all)", "ipairs({ all[1] })"),
    "a newcomer that overtakes": Mutant(
        "acquire", "not (upgrade or state_of(name).waiting == 0) or ", ""
    ),
    "a grant that nobody hears but counts": Mutant("_queue", "text(now)) > 0", "text(now)) >= 0"),
    "a hold of a set that takes only the first lock": Mutant(
        "_modes",
        "for place, name in ipairs(locks) do\n    local here",
        "for place, name in ipairs({ locks[1] }) do\n    local here",
    ),
    "a fencing token that comes twice": Mutant(
        "_lock", "return math.max(fence + 1, now_us)", "return fence"
    ),
    "a wait given up that keeps its place": Mutant("give_up", "take_out(all, token)", ""),
    "a wait given up that keeps the others waiting": Mutant("give_up", "settle(all)", ""),
    "a cancelled wait for a set that is taken out of one queue only": Mutant(
        "cancel", "take_out(locks, waiter)", "take_out({ name }, waiter)"
    ),
    "a downgrade that lets nobody in": Mutant("downgrade", "settle(all)", ""),
    "a hand-off that starts a new fencing token": Mutant(
        "adopt", "text(math.max(tonumber(fence), fence_now))", "text(tonumber(fence) - 1)"
    ),
    "sharers that are not counted down": Mutant(
        "_modes", "count_in(state, mode, -number)", "local _ = number"
    ),
    "shared beside exclusive": Mutant(
        "_modes",
        "if exclusive(name) then\n    return false",
        'if exclusive(name) then\n    return kind(mode) == "shared"',
    ),
    "the dead that keep the living from sharing": Mutant(
        "_queue", 'call("PUBSUB", "NUMSUB", GRANTS .. listener)[2] > 0', "true"
    ),
    "a set granted where it is not first everywhere": Mutant(
        "_queue", "stands and #locks > 1 and", "stands and #locks > 9 and"
    ),
    "a set handed on where it is not first everywhere": Mutant(
        "_end", "if place > 2 and its ~= entry then", "if place > 2 and not its then"
    ),
    "a part handed on to one that wants more": Mutant(
        "_end", "tonumber(size) == #KEYS - 1", "tonumber(size) >= #KEYS - 1"
    ),
    "a set that is granted though a part is held": Mutant(
        "_queue",
        "if not room(name, here) then\n      if",
        "if place == 1 and not room(name, here) then\n      if",
    ),
    "a set that waits for its first lock only": Mutant(
        "acquire",
        "for place = 2, #KEYS do\n        local front, last",
        "for place = 2, 2 do\n        local front, last",
    ),
    "a set that is handed on and stays in a line": Mutant(
        "_end", '"label", "line", first, holder)', '"label", "line")'
    ),
    "a newcomer that overtakes where nobody holds": Mutant(
        "acquire", "free and not held and not found[2]", "free and not held"
    ),
    "a newcomer that takes what is shared": Mutant(
        "acquire", 'not found[2] and sharers == "0"', "not found[2]"
    ),
    "a fencing token that a free lock gives out twice": Mutant(
        "acquire", "math.max(last_fence + 1, now_us)", "last_fence"
    ),
    "a fencing token that a release gives out twice": Mutant(
        "_end", "math.max(last_fence + 1, now_us)", "last_fence"
    ),
}


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Have the scripts with a mistake. Raises LookupError if it is not one of today's scripts."""
    read = scripts._read
    if read(scripts.__name__, mutant.part).decode().count(mutant.right) != 1:
        msg = (
            f"{mutant.part}.lua must have {mutant.right!r} once: write the mutant for the script "
            "of today"
        )
        raise LookupError(msg)

    def reading(package: str, part: str) -> bytes:
        text = read(package, part).decode()
        if part == mutant.part:
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
