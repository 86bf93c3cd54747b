"""The rules by which hypothesis uses locks, and what must be true after each.

They are the same for scripts and library.
"""

from __future__ import annotations

from typing import Any

import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from redis_locks import scripts
from redis_locks.values.keys import partition_of, set_keys
from tests.machines.specification import Model, Party
from tests.support import stored
from tests.support.world import until

NAMES = ("x", "y", "z")

NO, BRIEFLY, LONG = "not at all", "briefly", "for ever"

waits = st.sampled_from([NO, BRIEFLY, LONG, LONG])
sets = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)
modes = st.sampled_from(["exclusive", "exclusive", "shared"])
permits = st.integers(1, 3).map("permit:{}".format)


class Machine(RuleBasedStateMachine):
    """Does to real locks what it tells the model. How it is really done, subclasses say."""

    client: redis.Redis
    prefix: str
    partitions = 1

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(self.partition)
        self.old: list[Party] = []
        """Those who held, and may not know that it is over."""
        self.dead: set[str] = set()
        """Tokens of waiters that are gone without a word."""
        self.untidy: set[str] = set()
        """Locks whose holder vanished since somebody last looked at them."""
        self.fences = dict.fromkeys(NAMES, 0)
        self.known: dict[tuple[str, str], int] = {}
        """The fencing token of each lock and token."""

    # What a subclass does.

    def name(self, name: str) -> str:
        """The real name of a lock."""
        raise NotImplementedError

    def partition(self, name: str) -> int:
        return partition_of(self.name(name), self.partitions)

    def lose(self, position: int, losses: int) -> None:
        """Lose so many replies, from that one on."""
        raise NotImplementedError

    def ask(self, party: Party, wait: str) -> bool:
        """Acquire or upgrade; return whether it was granted."""
        raise NotImplementedError

    def queue_up(self, party: Party) -> None:
        """Begin to wait, in the model as well; return when it stands in line and listens."""
        raise NotImplementedError

    def granted(self, party: Party) -> None:
        """Return when a waiter knows that it was granted."""

    def look(self, party: Party) -> None:
        """Have a waiter find that the way is free, as it would by its timer."""
        raise NotImplementedError

    def extended(self, held: Party) -> None:
        raise NotImplementedError

    def released(self, held: Party) -> None:
        raise NotImplementedError

    def downgraded(self, held: Party) -> None:
        raise NotImplementedError

    def handed_over(self, held: Party) -> None:
        """Detach and adopt."""
        raise NotImplementedError

    def force_released(self, held: Party, name: str) -> None:
        raise NotImplementedError

    def lease_over(self, held: Party) -> None:
        raise NotImplementedError

    def comes_back(self, old: Party) -> None:
        """Have somebody who held try to go on, and to release."""
        raise NotImplementedError

    def gives_up(self, waiter: Party) -> None:
        raise NotImplementedError

    def cancelled(self, waiter: Party) -> None:
        raise NotImplementedError

    def dies(self, waiter: Party) -> None:
        raise NotImplementedError

    # The rules.

    def come(self, party: Party, wait: str) -> None:
        free = self.model.is_free(party)
        if wait == LONG and not self.may_wait(party):
            wait = BRIEFLY
        if free or wait != LONG:
            assert free == self.ask(party, wait)
            self.model.comes(party, waits=False)
        else:
            self.queue_up(party)

    def may_wait(self, party: Party) -> bool:
        """Let one set at a time wait for part after part: the next steps of two would be a race."""
        spread = len(self.model.parts(party)) > 1
        return not spread or not (party.upgrades or any(each.whole for each in self.model.line))

    def hear(self, granted: list[Party]) -> None:
        for party in granted:
            self.granted(party)

    def notice(self, granted: list[Party]) -> None:
        """Nobody was told: those who are next see it by themselves."""
        for party in granted + [each for each in self.model.holders if each.whole]:
            self.look(party)
        self.hear(granted)

    def one_of(self, data: st.DataObject, parties: list[Party]) -> Party | None:
        return data.draw(st.sampled_from(parties)) if parties else None

    def a_holder(self, data: st.DataObject, mode: str = "") -> Party | None:
        found = [party for party in self.complete() if not self.model.upgrading(party)]
        return self.one_of(data, [party for party in found if mode in ("", party.mode)])

    def complete(self) -> list[Party]:
        """The holds of whole sets."""
        return [party for party in self.model.holders if not party.whole]

    @rule(position=st.integers(1, 3), losses=st.integers(1, 2))
    def lose_replies(self, position: int, losses: int) -> None:
        self.lose(position, losses)

    @rule(names=sets, mode=modes, wait=waits)
    def acquire(self, names: tuple[str, ...], mode: str, wait: str) -> None:
        self.come(Party(names, mode), wait)

    @rule(name=st.sampled_from(NAMES), mode=permits, wait=waits)
    def acquire_a_permit(self, name: str, mode: str, wait: str) -> None:
        self.come(Party((name,), mode), wait)

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data(), wait=waits)
    def upgrade(self, data: st.DataObject, wait: str) -> None:
        held = self.a_holder(data, "shared")
        # Two upgrades of one lock are a deadlock, which is another story.
        taken = {name for party in self.model.line if party.upgrades for name in party.names}
        if held and not taken.intersection(held.names):
            self.come(Party(held.names, "exclusive", upgrades=held), wait)

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def downgrade(self, data: st.DataObject) -> None:
        if held := self.a_holder(data, "exclusive"):
            self.downgraded(held)
            self.hear(self.model.downgrades(held))

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        if held := self.a_holder(data):
            self.extended(held)

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if held := self.a_holder(data):
            self.released(held)
            self.old.append(held)
            self.hear(self.model.leaves(held))

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def hand_off(self, data: st.DataObject) -> None:
        if held := self.a_holder(data):
            before = {name: self.known.get((name, held.known_as(name)), 0) for name in held.names}
            self.handed_over(held)
            # An heir keeps the fencing token.
            self.known |= {(name, held.known_as(name)): fence for name, fence in before.items()}

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def force_release(self, data: st.DataObject) -> None:
        if held := self.a_holder(data):
            for name in held.names:
                self.force_released(held, name)
                self.hear(self.model.loses(held, name))
            self.old.append(held)

    @precondition(lambda self: self.complete())
    @rule(data=st.data())
    def end_a_lease(self, data: st.DataObject) -> None:
        """The holder stood still, or died. Of one that upgrades, its wait ends as well."""
        held = data.draw(st.sampled_from(self.complete()))
        upgrades = self.model.upgrading(held)
        self.lease_over(held)
        self.untidy.update(held.names)
        granted = self.model.leaves(held)
        self.notice([*upgrades, *granted])
        if not upgrades:
            self.old.append(held)

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def come_back_late(self, data: st.DataObject) -> None:
        self.comes_back(data.draw(st.sampled_from(self.old)))

    @precondition(lambda self: self.model.line)
    @rule(data=st.data(), how=st.sampled_from(["gives_up", "cancelled"]))
    def end_a_wait(self, data: st.DataObject, how: str) -> None:
        waiter = data.draw(st.sampled_from(self.model.line))
        getattr(self, how)(waiter)
        self.hear(self.model.leaves(waiter))

    @precondition(lambda self: self.model.line)
    @rule(data=st.data())
    def lose_a_waiter(self, data: st.DataObject) -> None:
        """It dies: nobody is told, and those behind it find out."""
        waiter = data.draw(st.sampled_from(self.model.line))
        self.dies(waiter)
        self.dead.add(waiter.token)
        self.untidy.update(waiter.names)
        self.notice(self.model.leaves(waiter))

    # What is true after each.

    def of_server(self, name: str) -> tuple[dict[str, int], list[str]]:
        """The holders of a lock, each with its fencing token, and its queue, the dead left out."""
        keys = set_keys(self.prefix, self.partition(name), (self.name(name),))
        reply: Any = self.client.eval(
            scripts.INSPECT.text, len(keys), *keys, "", 1000, "first", 0, 0
        )
        _, waiting, holding, held, line, _ = reply
        assert (holding, waiting) == (len(held) // 3, len(line) // 2)
        fences = {
            token.decode(): int(claim.split()[0])
            for token, claim in zip(held[::3], held[2::3], strict=True)
        }
        queue = [token.decode() for token in line[::2]]
        return fences, [token for token in queue if token not in self.dead]

    @invariant()
    def the_server_agrees(self) -> None:
        for name in NAMES:
            fences, queue = self.of_server(name)
            assert {each.known_as(name) for each in self.model.holders_of(name)} == set(fences)
            assert [each.known_as(name) for each in self.model.queue_of(name)] == queue
            self.fencing_tokens_grow(name, fences)

    def fencing_tokens_grow(self, name: str, fences: dict[str, int]) -> None:
        """Each new hold has a higher token than all before, and keeps it, or gets a higher one."""
        for token, fence in fences.items():
            assert fence == self.known.get((name, token)) or fence > self.fences[name]
        self.known |= {(name, token): fence for token, fence in fences.items()}
        self.fences[name] = max([self.fences[name], *fences.values()])

    def overtaken(self, name: str, fence: int) -> None:
        """An operator was told this fencing token: the next holder's is higher."""
        assert fence > self.fences[name]
        self.fences[name] = fence

    def teardown(self) -> None:
        try:
            self.the_server_agrees()  # else something failed, and has been told
        except AssertionError:
            self.clear()
            return
        try:
            self.everybody_leaves()
            until(self.nothing_is_left)  # what the background ends may take a moment
        finally:
            self.clear()

    def everybody_leaves(self) -> None:
        self.lose(0, 0)
        while self.model.line:
            waiter = self.model.line[0]
            self.gives_up(waiter)
            self.hear(self.model.leaves(waiter))
        for held in self.complete():
            self.released(held)
            self.model.leaves(held)
        for name in sorted(self.untidy):
            # What somebody leaves behind who died goes with the next look, or its lease.
            passer_by = Party((name,), "exclusive")
            assert self.ask(passer_by, NO)
            self.released(passer_by)

    def nothing_is_left(self) -> bool:
        """Nobody holds or waits, and there are no keys but those that may stay for a while."""
        keys = self.all_keys()
        kinds = {key.rpartition(b"}")[2].split(b":")[1] for key in keys}
        locks = [key for key in keys if b"}:lock:" in key]
        may_stay = {b"lock", b"index", b"done", b"late"}
        return kinds <= may_stay and all(stored.is_idle(self.client, lock) for lock in locks)

    def all_keys(self) -> set[bytes]:
        return set(self.client.scan_iter(match=f"{self.prefix}*", count=1000))

    def clear(self) -> None:
        if keys := self.all_keys():
            self.client.delete(*keys)


def run(machine: type[Machine], examples: int, *, steps: int = 30, shrinks: bool = False) -> None:
    """Let hypothesis use locks in so many ways; the same ones each time."""
    test = machine.TestCase()
    test.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink] if shrinks else [Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    test.runTest()
