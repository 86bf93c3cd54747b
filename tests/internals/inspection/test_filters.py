"""Pages of locks: filters, orders, and how quick they are with very many locks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import redis
from django.test import override_settings

from redis_locks import inspection
from redis_locks.connections.backends import backend_for
from redis_locks.inspection import queries
from redis_locks.inspection import survey as surveys
from redis_locks.inspection.filters import Filter, Search, groups, search
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.survey import survey
from tests.support.parties import held, waited_for

pytestmark = pytest.mark.usefixtures("own_prefix")


@contextmanager
def all_held(*names: str) -> Iterator[None]:
    with ExitStack() as stack:
        for each in names:
            stack.enter_context(held(each))
        yield


def shown(matching: Filter | None = None, order: str = "name") -> list[str]:
    found = search(matching or Filter(), order=order)
    return [lock.name for lock in found.details(found.found)]


def by_name() -> Search:
    return search(Filter(), order="name")


def test_what_began_at_the_same_time_stays_so_whenever_it_was_read() -> None:
    for held_ms in range(1000):
        sooner, later = (
            Summary("a", 1, ms / 1000, 1, ms / 1000, (9999 - ms) / 1000, 10, "", "")
            for ms in (held_ms, held_ms + 7)
        )
        assert later == sooner.later(0.007)


def test_a_search_reads_the_details_of_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    with all_held("a", "b"), waited_for("b"):
        monkeypatch.setattr(inspection, "locks", None)
        found = search(Filter())
        assert ("b", 1, 2) == (found.found[0].name, found.survey.waiting, found.survey.held)


def test_a_survey_tells_of_each_lock_what_its_details_would() -> None:
    with all_held("a", "b"), held("c", mode="shared", lease=90), waited_for("b"), waited_for("b"):
        found = {lock.name: lock for lock in survey().locks}
        for lock in inspection.locks():
            summary = found[lock.name]
            (holder,) = lock.holders
            (who,) = summary.holders
            assert (lock.waiting, 1) == (summary.waiting, summary.holding)
            assert (holder.lease, holder.host, holder.label) == (summary.lease, who.host, who.label)
            assert 0 <= holder.held_for - summary.held_for < 1
            assert 0 <= summary.lease_left - holder.lease_left < 1
            assert [each.label for each in lock.waiters] == [each.label for each in summary.waiters]
            oldest = max((waiter.waited for waiter in lock.waiters), default=0)
            assert 0 <= oldest - summary.oldest_wait < 1


@pytest.mark.parametrize("partitions", [1, 7])
def test_surveys_and_names_are_complete_whatever_the_size_of_their_parts(
    name: str, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "_PART", 3)
    monkeypatch.setattr(queries, "_NAMES", 3)
    wanted = [f"lock:{number:02}" for number in range(20)]
    settings = {"PREFIX": f"{name}-{partitions}", "PARTITIONS": partitions}
    with override_settings(REDIS_LOCKS=settings), all_held(*wanted):
        assert wanted == [lock.name for lock in survey().locks] == inspection.names()


def test_the_oldest_wait_is_that_of_the_first_who_still_waits() -> None:
    with held("a"), waited_for("a", "first"), waited_for("a", "second"):
        first = inspection.parties().waiters[0]
        assert inspection.cancel(first)
        (lock,) = survey().locks
        assert (1, ["second"]) == (lock.waiting, [who.label for who in lock.waiters])


def test_groups_are_of_names_that_differ_in_numbers_and_ids() -> None:
    uuid = "0b8f4c1e-8e0f-4a52-9a0b-0d8d2d2f6a11"
    with all_held("account:1", "account:22", f"job:{uuid}:step", "report"), waited_for("account:1"):
        found = groups(survey().locks)
    assert ["account:*", "job:*:step", "report"] == sorted(group.pattern for group in found)
    first = found[0]
    assert ("account:*", 2, 1, 1) == (first.pattern, first.locks, first.contended, first.waiting)


def test_names_are_complete_when_more_leases_end_at_once_than_fit_in_a_part(
    name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_NAMES", 3)
    wanted = [f"lock:{number:02}" for number in range(10)]
    (index,) = backend_for(None).partitions()[0]
    client.zadd(index, dict.fromkeys(wanted, 4_102_444_800_000) | {"later": 4_102_444_800_001})
    assert ["later", *wanted] == inspection.names()
    client.delete(index)


def test_chosen_locks_come_in_the_order_asked_for_without_those_that_are_free() -> None:
    with all_held("a", "b", "c"):
        found = [lock.name for lock in inspection.locks(names=["c", "free", "a"])]
    assert ["c", "a"] == found


def test_a_snapshot_says_when_it_was_read_and_how_long_the_lease_is() -> None:
    with held("a", lease=60):
        first, second = inspection.lock("a"), inspection.lock("a")
    assert first
    assert second
    assert abs(first.at - time.time()) < 5
    assert 60 == first.holders[0].lease
    # The points in time are the same each time it is read.
    assert round(first.at - first.holders[0].held_for, 3) == round(
        second.at - second.holders[0].held_for, 3
    )


def test_the_name_filter_looks_for_text_in_upper_or_lower_case() -> None:
    with all_held("account:Alice", "account:bob", "report"):
        assert ["account:Alice"] == shown(matching=Filter(text="aLICE"))
        assert ["account:Alice", "account:bob"] == shown(matching=Filter(text="account"))


def test_the_name_filter_finds_what_is_shown_for_control_characters() -> None:
    with held("first\nsecond"):
        assert ["first\nsecond"] == shown(matching=Filter(text=r"first\nsec"))
        assert ["first\nsecond"] == shown(matching=Filter(text="first\nsec"))
        assert [] == shown(matching=Filter(text="first second"))


def test_the_host_filter_looks_at_holders_and_waiters() -> None:
    with held("a"):
        (lock,) = by_name().found
        host = lock.holders[0].host
        assert ["a"] == shown(matching=Filter(host=host.upper()))
        assert [] == shown(matching=Filter(host=f"not-{host}"))


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="order must be 'trouble', 'name', "):
        search(Filter(), order="x")
