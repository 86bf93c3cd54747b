"""Tenants that share a server have names of their own: on every public way, and in inspection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redis_locks import inspection
from redis_locks.rows import lock_model, lock_rows
from tests import tenants
from tests.contract.parties.ways import NESTS, ROW, WAITS, WAYS, Way, aasked, asked, every, run
from tests.elsewhere import in_thread
from tests.ledger.models import Counter

pytestmark = pytest.mark.usefixtures("row", "own_prefix")


@pytest.fixture(autouse=True)
def sharing(own_prefix: object) -> Iterator[None]:
    with tenants.sharing():
        yield


def _asked_by(schema: str, way: Way, name: str) -> str:
    with tenants.of(schema):
        return asked(way, name)


def _held() -> set[str]:
    return {name.partition("|")[0] for name in inspection.names()}


@every(WAYS)
def test_a_name_of_one_tenant_excludes_nobody_of_another(way: Way, name: str) -> None:
    def inside() -> str:
        assert _held() == {"a"}
        assert asked(way, name) == way.word(NESTS)
        assert in_thread(_asked_by, "a", way, name) == WAITS
        return in_thread(_asked_by, "b", way, name)

    with tenants.of("a"):
        assert way.run(name, inside) == NESTS
    assert inspection.names() == []


@every(WAYS)
def test_the_same_in_async_code(way: Way, name: str) -> None:
    async def inside() -> str:
        assert {name.partition("|")[0] for name in await inspection.anames()} == {"a"}
        assert await aasked(way, name) == way.word(NESTS)
        with tenants.of("b"):
            return await aasked(way, name)

    async def main() -> str:
        with tenants.of("a"):
            return await way.arun(name, inside)

    assert run(main()) == NESTS
    assert inspection.names() == []


@every(WAYS)
def test_the_function_is_asked_once_for_each_name_of_an_acquire(way: Way, name: str) -> None:
    def inside() -> str:
        first.extend(tenants.asked)
        return ""

    first: list[tuple[str, str]] = []
    tenants.asked.clear()
    way.run(name, inside)
    kinds = {"lock_rows": "row", "lock_model": "row", "Semaphore": "semaphore"}
    kind = kinds.get(way.title, "job" if "once" in way.title else "lock")
    assert {kind} == {kind for _, kind in first}
    if way.title != "lock_rows":  # which reads its rows twice
        assert len(first) == len(set(first))
    assert set(first) == set(tenants.asked)


@pytest.mark.django_db(transaction=True)
def test_partitions_keep_the_rows_of_a_tenant_beside_their_model(name: str) -> None:
    def takes_the_model(schema: str) -> bool:
        with tenants.of(schema):
            hold = lock_model(Counter).acquire(wait=0)
        if hold is not None:
            hold.release()
        return hold is not None

    with tenants.sharing(PARTITIONS=16), tenants.of("a"):
        for number in range(8):
            Counter.objects.create(name=f"{ROW} {number}")
        with lock_rows(Counter.objects.all(), wait=0):
            assert not in_thread(takes_the_model, "a")
            assert in_thread(takes_the_model, "b")
        with lock_rows(Counter.objects.all(), skip_locked=True) as rows:
            assert len(rows) == 9
