"""Random sequences of script calls, of any mode and over sets, against a model of a page.

A lost reply is a call that is made twice; a crash is a lease that ends.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_locks import scripts
from redis_locks.testing.server import EmbeddedServer
from tests.scripts.bench import FOR_EVER, WHO, Bench

NAMES = ("x", "y", "z")
LEASE = 60_000

names_of_sets = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)
plain_modes = st.sampled_from(["exclusive", "shared"])
permits = st.integers(1, 3).map("permit:{}".format)


@dataclass
class Party:
    token: str
    names: tuple[str, ...]
    mode: str
    since: str = ""
    """The token of the shared hold that an upgrade starts from."""

    @property
    def capacity(self) -> int:
        return int(self.mode.removeprefix("permit:"))


class Model:
    """Who holds and who waits, in the order of arrival."""

    def __init__(self) -> None:
        self.holders: list[Party] = []
        self.queue: list[Party] = []

    def holders_of(self, name: str) -> list[Party]:
        return [party for party in self.holders if name in party.names]

    def queue_of(self, name: str) -> list[Party]:
        return [party for party in self.queue if name in party.names]

    def room(self, party: Party, name: str) -> bool:
        others = [other for other in self.holders_of(name) if other.token != party.since]
        if not others:
            return True
        if party.mode == "shared":
            return all(other.mode == "shared" for other in others)
        if party.mode.startswith("permit"):
            if not all(other.mode.startswith("permit") for other in others):
                return False
            return len(others) < min(each.capacity for each in (party, *others))
        return False

    def fits(self, party: Party) -> bool:
        first = all(self.queue_of(name)[:1] in ([], [party]) for name in party.names)
        return first and all(self.room(party, name) for name in party.names)

    def grant(self, party: Party) -> None:
        self.holders = [other for other in self.holders if other.token != party.since]
        if party in self.queue:
            self.queue.remove(party)
        self.holders.append(party)

    def settle(self) -> None:
        while fitting := [party for party in self.queue if self.fits(party)]:
            self.grant(fitting[0])


class ScriptMachine(RuleBasedStateMachine):
    client: redis.Redis

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.client, uuid.uuid4().hex)
        self.ears = self.client.pubsub()
        self.model = Model()
        self.count = 0
        self.fences = dict.fromkeys(NAMES, 0)
        self.known: set[tuple[str, str]] = set()

    def call(self, script: Any, party: Party, *argv: object, times: int = 1) -> list[str]:
        for _ in range(times):
            words = self.bench.words(script, party.token, *argv, names=party.names)
        return words

    def ask(self, party: Party, wait: int, *, first: bool, times: int = 1) -> list[str]:
        mode = f"upgrade:{party.since}" if party.since else party.mode
        for number in range(times):
            begins = int(first and number == 0)
            argv = (LEASE, mode, WHO, party.token, wait, begins)
            words = self.call(scripts.ACQUIRE, party, *argv)
        return words

    def new_token(self) -> str:
        self.count += 1
        return f"session{self.count}.{self.count}"

    def come(self, party: Party, wait: int, times: int) -> None:
        if wait:
            self.ears.subscribe(self.bench.channel(party.token))
            while self.ears.get_message(timeout=5)["type"] != "subscribe":
                pass
        alone = all(not self.model.queue_of(name) or party.since for name in party.names)
        granted = alone and all(self.model.room(party, name) for name in party.names)
        words = self.ask(party, wait, first=True, times=times)
        assert granted == (words[0] == "1")
        if granted:
            self.model.grant(party)
        elif wait and party.since:
            self.model.queue.insert(0, party)
        elif wait:
            self.model.queue.append(party)
        self.model.settle()

    @rule(
        names=names_of_sets,
        mode=plain_modes,
        wait=st.sampled_from([0, FOR_EVER]),
        times=st.integers(1, 2),
    )
    def acquire(self, names: tuple[str, ...], mode: str, wait: int, times: int) -> None:
        self.come(Party(self.new_token(), names, mode), wait, times)

    @rule(
        name=st.sampled_from(NAMES),
        mode=permits,
        wait=st.sampled_from([0, FOR_EVER]),
        times=st.integers(1, 2),
    )
    def acquire_a_permit(self, name: str, mode: str, wait: int, times: int) -> None:
        self.come(Party(self.new_token(), (name,), mode), wait, times)

    def a_holder(self, data: st.DataObject, mode: str = "") -> Party | None:
        upgrading = {party.since for party in self.model.queue}
        found = [
            party
            for party in self.model.holders
            if party.token not in upgrading and mode in ("", party.mode)
        ]
        return data.draw(st.sampled_from(found)) if found else None

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data(), wait=st.sampled_from([0, FOR_EVER]), times=st.integers(1, 2))
    def upgrade(self, data: st.DataObject, wait: int, times: int) -> None:
        held = self.a_holder(data, "shared")
        taken = {name for party in self.model.queue if party.since for name in party.names}
        if held and not taken.intersection(held.names):
            self.come(Party(self.new_token(), held.names, "exclusive", held.token), wait, times)

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data(), times=st.integers(1, 2))
    def release(self, data: st.DataObject, times: int) -> None:
        held = self.a_holder(data)
        if held:
            self.call(scripts.RELEASE, held, times=times)
            self.model.holders.remove(held)
            self.model.settle()

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data(), times=st.integers(1, 2))
    def force_release(self, data: st.DataObject, times: int) -> None:
        """From all its locks, one after the other."""
        held = self.a_holder(data)
        if not held:
            return
        self.model.holders.remove(held)
        for name in held.names:
            by = self.new_token()
            for _ in range(times):
                fence, *ended = self.bench.words(
                    scripts.FORCE_RELEASE, by, held.token, names=[name]
                )
                assert [held.token] == ended
            assert int(fence) > self.fences[name]
            self.fences[name] = int(fence)
        self.model.settle()

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Its lease ends; whoever waits notices by a timer."""
        held = self.a_holder(data)
        if not held:
            return
        for name in held.names:
            tag = self.bench.index_key.decode().removesuffix("index")
            holder, sharers = f"{tag}holder:{name}", f"{tag}sharers:{name}"
            if held.mode == "exclusive":
                self.client.delete(holder)
            else:
                self.client.zadd(sharers, {held.token: 1}, xx=True)
        self.model.holders.remove(held)
        waiting = [party for name in held.names for party in self.model.queue_of(name)]
        self.model.settle()
        for party in waiting:
            self.ask(party, FOR_EVER, first=False)

    @precondition(lambda self: self.model.queue)
    @rule(data=st.data(), times=st.integers(1, 2))
    def give_up(self, data: st.DataObject, times: int) -> None:
        party = data.draw(st.sampled_from(self.model.queue))
        self.call(scripts.ABANDON, party, party.mode, times=times)
        self.model.queue.remove(party)
        self.model.settle()

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def give_up_what_was_just_granted(self, data: st.DataObject) -> None:
        held = self.a_holder(data)
        if held:
            self.call(scripts.ABANDON, held, held.mode)
            self.model.holders.remove(held)
            self.model.settle()

    @precondition(lambda self: self.model.queue)
    @rule(data=st.data())
    def show_a_sign_of_life(self, data: st.DataObject) -> None:
        self.ask(data.draw(st.sampled_from(self.model.queue)), FOR_EVER, first=False)

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data(), times=st.integers(1, 2))
    def downgrade(self, data: st.DataObject, times: int) -> None:
        held = self.a_holder(data, "exclusive")
        if held:
            self.call(scripts.DOWNGRADE, held, times=times)
            held.mode = "shared"
            self.model.settle()

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data(), times=st.integers(1, 2))
    def adopt(self, data: st.DataObject, times: int) -> None:
        held = self.a_holder(data)
        if held:
            heir = self.new_token()
            assert "1" == self.call(scripts.ADOPT, held, heir, LEASE, WHO, 0, times=times)[0]
            held.token = heir

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        held = self.a_holder(data)
        if held:
            assert "1" == self.call(scripts.EXTEND, held, LEASE)[0]

    @invariant()
    def the_server_agrees(self) -> None:
        for name in NAMES:
            _, waiting, holding, held, line = self.bench.run(
                scripts.INSPECT, "", 1000, names=(name,)
            )
            holders = {party.token for party in self.model.holders_of(name)}
            assert holders == {token.decode() for token in held[::3]}
            queue = [party.token for party in self.model.queue_of(name)]
            assert queue == [token.decode() for token in line[::2]]
            assert (len(queue), len(holders)) == (waiting, holding)
            self.tokens_grow(name, held)

    def tokens_grow(self, name: str, held: list[bytes]) -> None:
        """Each hold that is new has a higher fencing token than all before; adopted ones keep theirs."""
        fences = {int(claim.split()[0]) for claim in held[2::3]}
        new = {fence for fence in fences if (name, str(fence)) not in self.known}
        assert all(fence > self.fences[name] for fence in new)
        self.known |= {(name, str(fence)) for fence in new}
        self.fences[name] = max([self.fences[name], *new])

    def teardown(self) -> None:
        for party in list(self.model.queue):
            self.call(scripts.ABANDON, party, party.mode)
        for party in list(self.model.holders):
            self.call(scripts.RELEASE, party)
        self.model.queue.clear()
        keys = [key.decode().rpartition("}")[2] for key in self.bench.all_keys()]
        kinds = {key.lstrip(":").partition(":")[0] for key in keys}
        self.ears.close()
        self.bench.close()
        # What a crashed holder leaves in the index goes with the next look or its lease.
        assert kinds <= {"fence", "index", "done"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("examples", [40, pytest.param(300, marks=pytest.mark.long)])
def test_scripts_behave_as_their_model(redis_server: EmbeddedServer, examples: int) -> None:
    # redis-py would repeat what took long on a busy machine, and so a first question.
    ScriptMachine.client = redis_server.client(socket_timeout=None, retry=Retry(NoBackoff(), 0))
    test = ScriptMachine.TestCase()
    test.settings = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with ScriptMachine.client:
        test.runTest()
