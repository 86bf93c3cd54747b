"""The machine that calls scripts. A lost reply is a call that is made again; a death is silence."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from redis_locks import scripts
from tests.machines.machine import BRIEFLY, NO, Machine
from tests.machines.specification import Party
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.support import stored

LEASE = 60_000

# A lease that ends in this very millisecond, where time stands still while a script runs; else
# soon.
_ENDS_NOW = """
local time = redis.call("TIME")
redis.call("ZADD", "%s", "XX", time[1] * 1000 + math.floor(time[2] / 1000) + %d, "%s")
"""
_CLOCK_STANDS = """
local before = redis.call("TIME")
for _ = 1, 10000 do end
return before[2] == redis.call("TIME")[2]
"""


def clock_stands(client: Any) -> bool:
    """Whether the server's clock stands still while a script runs. In Redis 7.0 it goes on."""
    return bool(client.eval(_CLOCK_STANDS, 0))


class ScriptMachine(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.client, uuid.uuid4().hex)
        self.prefix = self.bench.prefix
        self.subscription = self.client.pubsub()
        self.count = 0
        self.until_loss = self.losses = 0
        self.moment = 0 if clock_stands(self.client) else 20

    def name(self, name: str) -> str:
        return name

    def lose(self, position: int, losses: int) -> None:
        self.until_loss, self.losses = position, losses

    def times(self) -> int:
        """How often the next call is made."""
        self.until_loss -= 1
        return 1 + self.losses if self.until_loss == 0 else 1

    def call(self, script: Any, party: Party, *argv: object, names: Any = ()) -> list[str]:
        for _ in range(self.times()):
            words = self.bench.words(script, party.token, *argv, names=names or party.names)
        return words

    def mode(self, party: Party) -> str:
        return f"upgrade:{party.upgrades.token}" if party.upgrades else party.mode

    def question(self, party: Party, wait: int, *, first: bool) -> str:
        """Ask for the locks; return how the reply begins: 1 for granted."""
        for number in range(self.times()):
            begins = int(first and number == 0)
            argv = (LEASE, self.mode(party), WHO, party.token, wait, begins)
            words = self.bench.words(scripts.ACQUIRE, party.token, *argv, names=party.names)
        return words[0]

    def new_token(self) -> str:
        self.count += 1
        return f"session{self.count}.{self.count}"

    def ask(self, party: Party, wait: str) -> bool:
        party.token = self.new_token()
        wait_ms = {NO: 0, BRIEFLY: 20}.get(wait, FOR_EVER)
        granted = self.question(party, wait_ms, first=True) == "1"
        if not granted and wait == BRIEFLY:
            self.gives_up(party)
        return granted

    def queue_up(self, party: Party) -> None:
        party.token = self.new_token()
        self.subscription.subscribe(self.bench.channel(party.token))
        while self.subscription.get_message(timeout=5)["type"] != "subscribe":
            pass
        assert "0" == self.question(party, FOR_EVER, first=True)
        self.model.comes(party, waits=True)

    def look(self, party: Party) -> None:
        lost = party.upgrades and party.upgrades not in self.model.holders
        expected = "2" if lost and party not in self.model.holders else "1"
        assert expected == self.question(party, FOR_EVER, first=False)

    def extended(self, held: Party) -> None:
        assert "1" == self.call(scripts.EXTEND, held, LEASE)[0]

    def released(self, held: Party) -> None:
        self.call(scripts.RELEASE, held)

    def downgraded(self, held: Party) -> None:
        assert ["1"] == self.call(scripts.DOWNGRADE, held)

    def handed_over(self, held: Party) -> None:
        heir = self.new_token()
        assert "1" == self.call(scripts.ADOPT, held, heir, LEASE, WHO, 0)[0]
        self.old.append(Party(held.names, held.mode, token=held.token))
        held.token = heir

    def force_released(self, held: Party, name: str) -> None:
        operator = Party((name,), "", token=self.new_token())
        fence, ended = self.call(scripts.FORCE_RELEASE, operator, held.token)
        assert held.token == ended
        self.overtaken(name, int(fence))

    def lease_over(self, held: Party) -> None:
        tag = self.bench.index_key.decode().removesuffix("index")
        for name in held.names:
            lock, sharers = f"{tag}lock:{name}", f"{tag}sharers:{name}"
            if held.mode == "exclusive":
                stored.drop_holder(self.client, lock.encode())
                continue
            keys = (self.bench.index_key, lock)
            last_moment = (
                _ENDS_NOW % (sharers, self.moment, held.token) + scripts.INSPECT.text.decode()
            )
            reply: Any = self.client.eval(last_moment, len(keys), *keys, "", 1000, "first", 0, 0)
            assert held.token.encode() in reply[3][::3]
            self.client.zadd(sharers, {held.token: 1}, xx=True)

    def comes_back(self, old: Party) -> None:
        assert "0" == self.call(scripts.EXTEND, old, LEASE)[0]
        assert ["0"] == self.call(scripts.RELEASE, old)

    def gives_up(self, waiter: Party) -> None:
        self.call(scripts.GIVE_UP, waiter, self.mode(waiter))

    def cancelled(self, waiter: Party) -> None:
        operator = Party(waiter.names[-1:], "", token=self.new_token())
        assert ["1"] == self.call(scripts.CANCEL, operator, waiter.token)

    def dies(self, waiter: Party) -> None:
        self.subscription.unsubscribe(self.bench.channel(waiter.token))
        while self.subscription.get_message(timeout=5)["type"] != "unsubscribe":
            pass

    # What only a script can be asked at a certain moment.

    @precondition(lambda self: self.model.holders)
    @rule(data=st.data())
    def give_up_what_was_just_granted(self, data: st.DataObject) -> None:
        held = self.a_holder(data)
        if held and not held.upgrades:
            self.gives_up(held)
            self.model.leaves(held)

    @precondition(lambda self: self.model.line)
    @rule(data=st.data())
    def show_a_sign_of_life(self, data: st.DataObject) -> None:
        waiter = data.draw(st.sampled_from(self.model.line))
        assert "0" == self.question(waiter, FOR_EVER, first=False)

    def clear(self) -> None:
        super().clear()
        self.subscription.close()
