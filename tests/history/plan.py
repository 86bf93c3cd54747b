"""A plan: which sections each process runs, and what goes wrong meanwhile.

Everything comes from one seed.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar

Part = TypeVar("Part")

NAMES: Final = ("x", "y", "z")
PERMITS: Final = {"permits": 2, "permit": 1}
"""The semaphores and their capacities."""
ROWS: Final = 3

FAULTS: Final = (
    "kill", "stop", "lose", "keep losing", "cut", "late", "hold back", "part", "pause",
    "flush scripts", "disconnect", "restart", "force", "cancel",
)  # fmt: skip
"""What may go wrong while all promises stand; see `injection`."""

FAIL_OVER: Final = "fail over"

CLUSTER_FAULTS: Final = ("failover", "move", "freeze")
"""What may go wrong on a cluster: planned fail-overs, slots that move key by key, processes and
nodes that stand still.
"""

ANYWHERE: Final = ("kill", "stop", "force", "cancel")
"""The other faults that may happen on a cluster."""


@dataclass(frozen=True)
class Section:
    """One hold: what is asked for, what its holder does, and how it ends."""

    kind: str
    """lock, set, permit, rows, skip (rows that nobody holds), model, or adopt (what another process
    detached).
    """
    names: tuple[str, ...] = ()
    mode: str = "exclusive"
    lease: float = 2.0
    renew: bool = True
    wait: float = 3.0
    """Negative: cancelled after so long, in async code."""
    verbs: tuple[str, ...] = ()
    """What the holder does, in turn: stay, linger, nest, extend, upgrade, downgrade, also."""
    end: str = "release"
    """release, twice, commit or detach."""


Unit = tuple[Section, ...]
"""What one thread or task does."""


@dataclass(frozen=True)
class Worker:
    """One process, with threads or tasks."""

    tasks: bool
    proxied: bool
    """Whether faults of the network reach it."""
    units: tuple[Unit, ...]


@dataclass(frozen=True)
class Fault:
    """What goes wrong, when (seconds from the start), and which one is hit (0 to 1)."""

    at: float
    kind: str
    pick: float


@dataclass(frozen=True)
class Plan:
    """One run."""

    seed: int
    workers: tuple[Worker, ...]
    faults: tuple[Fault, ...]
    partitions: int = 1
    fails_over: bool = False
    """Whether the server has a replica, which may replace it."""
    replicas: int = 0
    """How many replicas must know of a hold: with one, no fail-over forgets it."""
    cluster: bool = False
    """Whether the server is a cluster, each master with a replica."""

    @property
    def size(self) -> str:
        """How large it is, for people."""
        sections = sum(len(unit) for worker in self.workers for unit in worker.units)
        return f"{len(self.workers)} processes, {sections} sections, {len(self.faults)} faults"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        found: dict[str, Any] = json.loads(text)
        workers = tuple(
            Worker(
                each["tasks"],
                each["proxied"],
                tuple(tuple(map(_section, unit)) for unit in each["units"]),
            )
            for each in found.pop("workers")
        )
        faults = tuple(Fault(**each) for each in found.pop("faults"))
        return cls(workers=workers, faults=faults, **found)


def _section(found: dict[str, Any]) -> Section:
    lists = {name: tuple(found[name]) for name in ("names", "verbs")}
    return Section(**(found | lists))


def plan_of(
    seed: int, *, sections: int = 25, seconds: float = 8.0, fails_over: bool = False
) -> Plan:
    """Return the plan of a seed: so many sections a thread or task, and faults for so many seconds.

    With `fails_over`, a replica replaces the primary at least once.
    """
    chance = random.Random(seed)
    workers = tuple(
        Worker(
            tasks=number % 2 == 1,
            proxied=chance.random() < 0.6,
            units=tuple(
                tuple(_section_of(chance) for _ in range(sections))
                for _ in range(chance.choice([1, 2, 3]))
            ),
        )
        for number in range(chance.choice([3, 4]))
    )
    # One plan in six is calm: then callers must not be told of any trouble.
    count = 0 if chance.random() < 1 / 6 else chance.randint(4, 14)
    moments = sorted(chance.uniform(0.3, seconds) for _ in range(count))
    faults = tuple(Fault(at, chance.choice(FAULTS), chance.random()) for at in moments)
    plan = Plan(seed, workers, faults, partitions=chance.choice([1, 1, 3]))
    if not fails_over:
        return plan
    moments = [chance.uniform(0.3, seconds) for _ in range(chance.choice([1, 2, 3]))]
    failing = (Fault(at, FAIL_OVER, chance.random()) for at in moments)
    return replace(
        plan,
        faults=tuple(sorted((*faults, *failing), key=lambda fault: fault.at)),
        fails_over=True,
        replicas=chance.choice([0, 1]),
    )


def cluster_plan_of(
    seed: int, *, seconds: float = 12.0, kinds: Sequence[str] = CLUSTER_FAULTS
) -> Plan:
    """Return the plan of a seed for a cluster: each of the `kinds` of faults happens once at least.

    In each process one thread or task shares locks for long and extends its leases, also while a
    slot moves. Others take turns at few locks, so that somebody waits, and somebody asks, at each
    moment of a fail-over.
    """
    chance = random.Random(seed)
    workers = tuple(
        Worker(
            tasks=number % 2 == 1,
            proxied=False,
            units=(
                tuple(_section_of(chance, lingers=True) for _ in range(12)),
                tuple(_long_section_of(chance) for _ in range(20)),
                *(tuple(_brief_section_of(chance) for _ in range(60)) for _ in range(3)),
            ),
        )
        for number in range(4)
    )
    happening = [*kinds, *chance.choices(kinds, k=5)]
    chance.shuffle(happening)
    moments = sorted(chance.uniform(0.5, seconds) for _ in happening)
    faults = tuple(
        Fault(at, kind, chance.random()) for at, kind in zip(moments, happening, strict=True)
    )
    return Plan(seed, workers, faults, partitions=4, cluster=True)


def _long_section_of(chance: random.Random) -> Section:
    kind, name, mode = chance.choice([("lock", "z", "shared"), ("permit", "permits", "permit:2")])
    verbs = ("linger", "extend", "linger", "extend")
    return Section(kind, (name,), mode, lease=chance.choice([1.5, 4.0]), verbs=verbs)


def _brief_section_of(chance: random.Random) -> Section:
    kind = chance.choices(["lock", "permit"], [3, 1])[0]
    names = chance.choices([("x",), ("y",)], [3, 1])[0] if kind == "lock" else ("permits",)
    mode = "exclusive" if kind == "lock" else f"permit:{PERMITS[names[0]]}"
    wait = chance.choice([3.0, 3.0, 0.0])
    verbs = ("stay",) * chance.choice([0, 1, 2])
    return Section(kind, names, mode, wait=wait, verbs=verbs)


def _section_of(chance: random.Random, *, lingers: bool = False) -> Section:
    kind = chance.choices(
        ["lock", "set", "permit", "rows", "skip", "model", "adopt"], [10, 3, 4, 2, 1, 1, 2]
    )[0]
    verbs = ["stay", "stay", "extend", *(["linger"] if lingers else [])]
    ends = ["release", "release", "twice"]
    mode, names = "exclusive", tuple[str, ...]()
    if kind in {"lock", "set"}:
        names = tuple(chance.sample(NAMES, 1 if kind == "lock" else 2))
        mode = chance.choice(["exclusive", "exclusive", "shared"])
        verbs += ["nest", "also", "upgrade", "downgrade"]
    elif kind == "permit":
        names = (chance.choice(list(PERMITS)),)
        mode = f"permit:{PERMITS[names[0]]}"
    elif kind in {"rows", "skip"}:
        names = tuple(map(str, chance.sample(range(1, ROWS + 1), chance.choice([1, 1, 2]))))
    if kind in {"rows", "skip", "model"}:
        mode = chance.choice(["exclusive", "no_key", "shared", "key_share"])
    if kind in {"lock", "permit"}:
        ends.append("detach")
    if kind == "lock" and mode == "exclusive":
        ends += ["commit", "commit"]
    return Section(
        kind,
        names,
        mode,
        lease=chance.choice([1.5, 2.0, 4.0]),
        renew=chance.random() < 0.8,
        wait=chance.choices([3.0, 0.0, 0.05, -0.05], [7, 1, 1, 1])[0],
        verbs=tuple(chance.choice(verbs) for _ in range(chance.choice([0, 1, 1, 2, 3]))),
        end=chance.choice(ends),
    )


def shrink(plan: Plan, fails: Callable[[Plan], bool], *, runs: int = 30, tries: int = 2) -> Plan:
    """Return a smaller plan that still fails: with fewer faults, processes, units and sections.

    Args:
        plan: One that failed.
        fails: Runs a plan.
        runs: How many runs there may be in all.
        tries: In how many runs a smaller plan has to fail once: timing is no part of a plan.
    """
    while True:
        for smaller in _smaller(plan):
            tried = 0
            while tried < tries and runs > 0:
                tried, runs = tried + 1, runs - 1
                if fails(smaller):
                    break
            else:
                if runs <= 0:
                    return plan
                continue
            plan = smaller
            break
        else:
            return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with less of something, those with much less first."""
    for faults in _without_parts(plan.faults, least=0):
        yield replace(plan, faults=faults)
    for workers in _without_parts(plan.workers):
        yield replace(plan, workers=workers)
    for number, worker in enumerate(plan.workers):
        for units in _with_less_to_do(worker.units):
            changed = replace(worker, units=units)
            yield replace(
                plan, workers=(*plan.workers[:number], changed, *plan.workers[number + 1 :])
            )


def _with_less_to_do(units: tuple[Unit, ...]) -> Iterator[tuple[Unit, ...]]:
    yield from _without_parts(units)
    for place, unit in enumerate(units):
        for sections in _without_parts(unit):
            yield (*units[:place], sections, *units[place + 1 :])


def _without_parts(parts: tuple[Part, ...], least: int = 1) -> Iterator[tuple[Part, ...]]:
    """Yield `parts` without all, either half, and each one, but never less than `least`."""
    seen = {len(parts): {parts}}
    halves = (parts[:least], parts[: len(parts) // 2], parts[len(parts) // 2 :])
    singles = (parts[:place] + parts[place + 1 :] for place in range(len(parts)))
    for fewer in (*halves, *singles):
        known = seen.setdefault(len(fewer), set())
        if least <= len(fewer) < len(parts) and fewer not in known:
            known.add(fewer)
            yield fewer
