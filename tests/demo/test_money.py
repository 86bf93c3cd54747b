"""Money is conserved to the cent, whatever happens to processes and replies meanwhile."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.db import connection

from demo_project.bank.accounts import REDIS_BOOKS
from demo_project.bank.strategies import STRATEGIES, Durability
from redis_locks.testing.server import EmbeddedServer
from tests.demo import money_worker
from tests.demo.money_worker import MOVED, OUTCOMES, SLOW, Transfer, account_names
from tests.faults.proxy import Proxy
from tests.support.children import processes

SAFE = [
    name
    for name, strategy in STRATEGIES.items()
    if strategy.is_safe and strategy.durability is not Durability.AOF
]
SHARES = 4
ACCOUNTS = 8
START_CENTS = 1_000
MOST_CENTS = 500
ONE_IN = 300
"""So many replies for one that is lost."""
TRANSFERS = int(os.environ.get("REDIS_LOCKS_TRANSFERS", "20000"))
"""How many the long form does; 200,000 take some ten minutes."""

PATIENCE = 45.0

pytestmark = pytest.mark.django_db(transaction=True)


class Crew:
    """The processes that make the transfers, one for each share."""

    def __init__(self, url: str, ledger: str, plan: tuple[Any, ...]) -> None:
        used = connection.settings_dict
        # The processes are killed, not the machine: nothing need be on the disk.
        options = {**used["OPTIONS"], "init_command": "PRAGMA synchronous=OFF"}
        database = {"ENGINE": used["ENGINE"], "NAME": str(used["NAME"]), "OPTIONS": options}
        self._orders = {"url": url, "ledger": ledger, "plan": plan, "database": database}
        self._workers = [self._start(share) for share in range(SHARES)]

    def _start(self, share: int) -> Any:
        orders = {**self._orders, "share": share, "shares": SHARES}
        worker = processes.Process(target=money_worker.work, args=(orders,), daemon=True)
        worker.start()
        return worker

    def replace(self, share: int) -> None:
        """Kill the worker of a share and start another one, which takes over."""
        self.kill(share)
        self._workers[share] = self._start(share)

    def kill(self, share: int) -> None:
        self._workers[share].kill()
        self._workers[share].join()

    @property
    def failed(self) -> list[int]:
        return [worker.exitcode for worker in self._workers if worker.exitcode]


@pytest.fixture
def proxy(redis_server: EmbeddedServer) -> Iterator[Proxy]:
    """Counts every reply, whatever it answers."""
    with Proxy(redis_server.url, counted=(b"",)) as made:
        yield made


def balances(client: redis.Redis, strategies: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in strategies:
        found |= STRATEGIES[name].books.read(client, account_names(name, ACCOUNTS))
    return found


def make_all(
    client: redis.Redis, crew: Crew, count: int, kills: list[int], within: float
) -> set[str]:
    """Kill a worker whenever so many transfers are done; return which accounts were overdrawn."""
    on_redis = [name for name in SAFE if STRATEGIES[name].books is REDIS_BOOKS]
    chance = random.Random(count)
    overdrawn: set[str] = set()
    deadline = time.monotonic() + within
    while (done := client.hlen(OUTCOMES)) < count:
        assert time.monotonic() < deadline, f"{done} of {count} transfers were made in {within} s"
        assert [] == crew.failed
        if kills and done >= kills[0]:
            kills.pop(0)
            crew.replace(chance.randrange(SHARES))
        overdrawn |= {name for name, cents in balances(client, on_redis).items() if cents < 0}
        time.sleep(0.02)
    return overdrawn


def expected(transfers: list[Transfer], outcomes: dict[int, int]) -> dict[str, int]:
    """The balances after all transfers that say that they moved their money, each of them once."""
    names = [account for name in SAFE for account in account_names(name, ACCOUNTS)]
    cents = dict.fromkeys(names, START_CENTS)
    for transfer in transfers:
        if outcomes[transfer.number] == MOVED:
            cents[transfer.sender] -= transfer.cents
            cents[transfer.recipient] += transfer.cents
    return cents


@pytest.mark.verdict
@pytest.mark.parametrize(
    ("count", "kills", "within"),
    [
        pytest.param(1_500, 2, PATIENCE, id="short", marks=pytest.mark.ci),
        pytest.param(
            TRANSFERS,
            TRANSFERS // 1000,
            3600.0,
            id="long",
            marks=[pytest.mark.long, pytest.mark.timeout(3700)],
        ),
    ],
)
def test_every_cent_is_where_it_should_be_though_processes_die_and_replies_get_lost(
    client: redis.Redis,
    redis_server: EmbeddedServer,
    proxy: Proxy,
    count: int,
    kills: int,
    within: float,
) -> None:
    client.flushdb()  # the other form has operations of the same names
    for way in SAFE:
        names = account_names(way, ACCOUNTS)
        STRATEGIES[way].books.seed(client, dict.fromkeys(names, START_CENTS))
    plan = (count, count, SAFE, ACCOUNTS, MOST_CENTS)
    # The last ones die early enough for those who take over to have something to do.
    planned = sorted(random.Random(kills).sample(range(count // 20, count * 3 // 4), kills))
    crew = Crew(proxy.url, redis_server.url, plan)
    proxy.lose(ONE_IN, every=ONE_IN)
    try:
        overdrawn = make_all(client, crew, count, planned, within)
    finally:
        for share in range(SHARES):
            crew.kill(share)
    assert [] == planned
    assert proxy.lost >= count // ONE_IN
    outcomes = {int(number): int(how) for number, how in client.hgetall(OUTCOMES).items()}
    transfers = money_worker.plan(*plan)
    found = balances(client, SAFE)
    assert expected(transfers, outcomes) == found
    assert set() == overdrawn
    assert min(found.values()) >= 0
    # Each way had its share of transfers, and the quick ones refused some.
    tried = {(each.strategy, outcomes[each.number] == MOVED) for each in transfers}
    assert {(way, True) for way in SAFE} <= tried
    assert {(way, False) for way in SAFE if not way.startswith(SLOW)} <= tried
