"""Rows that are locked with those that they refer to, or are a part of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models import Model

from redis_locks import inspection
from redis_locks.rows import lock_model, lock_rows
from tests.ledger.models import Counter, Entry, NotedCounter
from tests.rows.locked import Make, lock_of, locked
from tests.support.world import PATIENCE, Observer, World


def of_queryset(row: Model) -> Any:
    return type(row).objects.filter(pk=row.pk)


def test_related_rows_are_locked_too(world: World, counter: Make, name: str) -> None:
    row = counter()
    entry = Entry.objects.create(book=name, number=1, counter=row)
    alone = Entry.objects.create(book=name, number=2)
    rows = locked(world, lock_rows([entry, alone], of=("self", "counter")))
    assert world.acquire(lock_rows(row, nowait=True)) is None
    world.release(rows)
    entries = Entry.objects.filter(book=name)
    for query, of in ((entries.select_related("counter"), ()), (entries, ["counter"])):
        rows = locked(world, lock_rows(query, of=of))
        assert world.acquire(lock_rows(row, nowait=True)) is None
        found: Any = world.acquire(lock_rows(entry, nowait=True))
        assert (found is None) == (not of)
        for each in (rows, found):
            if each is not None:
                world.release(each)


@pytest.mark.parametrize("form", [lambda row: row, lambda row: [row], of_queryset])
def test_all_rows_of_a_relation_to_many_are_locked_too(
    world: World, counter: Make, name: str, form: Callable[[Model], Any]
) -> None:
    row = counter()
    user, groups = (
        User.objects.create(username=name[:100]),
        [Group.objects.create(name=f"{name}:{number}") for number in range(2)],
    )
    user.groups.set(groups)
    entries = [Entry.objects.create(book=name, number=n, counter=row) for n in range(2)]
    for what, of, related in ((row, "entry", entries), (user, "groups", groups)):
        rows = locked(world, lock_rows(form(what), of=[of]))
        assert [what] == rows
        for each in related:
            assert world.acquire(lock_rows(each, nowait=True)) is None
        world.release(rows)
    rows = locked(world, lock_rows(form(groups[0]), of=["self", "user"]))
    assert world.acquire(lock_rows(user, nowait=True)) is None
    world.release(rows)


@pytest.mark.parametrize("limited", ["limit", "slice", "skip_locked"])
def test_of_limited_rows_all_of_a_relation_to_many_are_locked(
    world: World, counter: Make, name: str, limited: str
) -> None:
    rows = [counter() for _ in range(3)]
    for row in rows:
        Entry.objects.bulk_create(
            Entry(book=f"{name}:{row.pk}", number=number, counter=row) for number in range(20)
        )
    query = Counter.objects.filter(pk__in=[row.pk for row in rows]).order_by("pk")
    options: Any = {"of": ("self", "entry"), "limit": 2, "skip_locked": limited == "skip_locked"}
    if limited == "slice":
        query, options["limit"] = query[:2], None
    found = locked(world, lock_rows(query, **options))
    assert rows[:2] == found
    free = Entry.objects.exclude(counter=None).order_by("counter", "number")
    assert list(rows[2].entry_set.order_by("number")) == world.block(
        lock_rows(free, skip_locked=True), list
    )
    world.release(found)


def test_an_instance_with_relations_that_is_gone_is_said(
    world: World, counter: Make, name: str
) -> None:
    entry = Entry.objects.create(book=name, number=1, counter=counter())
    Entry.objects.filter(book=name).delete()
    with pytest.raises(Entry.DoesNotExist):
        world.block(lock_rows(entry, of=("self", "counter")), list)


@pytest.mark.parametrize("skip_locked", [False, True])
def test_rows_whose_relation_leads_nowhere_come_without_a_hold(
    world: World, name: str, skip_locked: bool
) -> None:
    entry = Entry.objects.create(book=name, number=1)
    entries = Entry.objects.filter(book=name)
    for what in (entries, entry):
        rows = locked(world, lock_rows(what, of=["counter"], skip_locked=skip_locked))
        assert ([entry], None, ()) == (rows, rows.hold, rows.holds)
        world.release(rows)
        block = lock_rows(what, of=["counter"], skip_locked=skip_locked)
        assert [entry] == world.block(block, list)


def test_a_relation_that_changed_before_it_was_locked_is_followed(
    world: World, counter: Make, name: str, server_side: Observer
) -> None:
    old, new = counter(), counter()
    entry = Entry.objects.create(book=name, number=1, counter=old)
    rows = locked(world, lock_rows(old))
    wanted = lock_rows(Entry.objects.filter(book=name), of=("self", "counter"))
    waiting = world.start(world.acquire, wanted)
    server_side.until_waiters(lock_of(old), 1)
    Entry.objects.filter(book=name).update(counter=new)
    world.release(rows)
    found: Any = waiting.result(PATIENCE)
    assert ([entry], new.pk) == (found, found[0].counter_id)
    assert inspection.lock(lock_of(old)) is None
    assert inspection.lock(lock_of(new)) is not None
    world.release(found)


def test_a_row_of_a_child_is_a_row_of_its_parent(world: World, name: str) -> None:
    child = NotedCounter.objects.create(name=name)
    parent = Counter.objects.get(pk=child.pk)
    for one, other in ((child, parent), (parent, child)):
        rows = locked(world, lock_rows(one))
        assert world.acquire(lock_rows(other, nowait=True)) is None
        world.release(rows)
    rows = locked(world, lock_rows(NotedCounter.objects.filter(pk=child.pk)))
    assert world.acquire(lock_model(Counter, nowait=True)) is None
    world.release(rows)


def test_a_composite_key_is_locked(world: World, name: str) -> None:
    one, other = (Entry.objects.create(book=f"{name},1", number=number) for number in (1, 2))
    rows = locked(world, lock_rows(Entry.objects.filter(book=one.book, number=1)))
    assert [one] == rows
    assert world.acquire(lock_rows(one, nowait=True)) is None
    world.release(locked(world, lock_rows(other, nowait=True)))
    assert lock_of(one) == f"ledger.Entry@default:{name}%2C1,1"
    world.release(rows)


def test_distinct_rows_of_a_composite_key_are_locked(world: World, name: str) -> None:
    one = Entry.objects.create(book=name, number=1)
    rows = locked(world, lock_rows(Entry.objects.filter(book=name).distinct()))
    assert [one] == rows
    assert inspection.lock(lock_of(one)) is not None
    world.release(rows)
