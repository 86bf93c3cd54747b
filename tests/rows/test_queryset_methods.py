"""Each method of a queryset locks the rows that it reads or writes, or is refused.

docs/howto/rows.md has the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import models
from django.db.models import Count, Exists, Max, Prefetch, QuerySet, Subquery
from django.db.transaction import TransactionManagementError, atomic

from redis_locks import LockNotAvailable, inspection
from redis_locks.rows import RedisLockQuerySet, lock_rows
from tests.django.transactions import elsewhere
from tests.ledger.models import Counter, Entry
from tests.support.rows import row_of
from tests.support.world import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "rows.md"

Call = Callable[[Any], Any]

LOCK_ALL: dict[str, tuple[Call, Any]] = {
    "iterator": (lambda rows: [each.name for each in rows.iterator()], ["a", "b"]),
    "len": (len, 2),
    "bool": (bool, True),
    "list": (lambda rows: [each.name for each in rows], ["a", "b"]),
    "in_bulk": (lambda rows: sorted(each.name for each in rows.in_bulk().values()), ["a", "b"]),
    "values": (lambda rows: list(rows.values("name")), [{"name": "a"}, {"name": "b"}]),
    "values_list": (lambda rows: list(rows.values_list("name", flat=True)), ["a", "b"]),
    "dates": (lambda rows: len(rows.dates("date_joined", "year")), 1),
    "datetimes": (lambda rows: len(rows.datetimes("date_joined", "year")), 1),
    "count": (lambda rows: rows.count(), 2),
    "aggregate": (lambda rows: rows.aggregate(n=Count("pk"), m=Max("name")), {"n": 2, "m": "b"}),
    "update": (lambda rows: rows.update(value=7), 2),
    "delete": (lambda rows: rows.delete(), (2, {"ledger.Counter": 2})),
    "bulk_update": (lambda rows: rows.bulk_update(list(plain(rows)), ["value"]), 2),
}
"""What reads or writes two rows, and what it returns."""

LOCK_ONE: dict[str, tuple[Call, Any]] = {
    "get": (lambda rows: rows.get(name="a").name, "a"),
    "first": (lambda rows: rows.first().name, "a"),
    "last": (lambda rows: rows.reverse().last().name, "a"),
    "earliest": (lambda rows: rows.earliest("name").name, "a"),
    "latest": (lambda rows: rows.latest("-name").name, "a"),
    "slice": (lambda rows: [each.name for each in rows[:1]], ["a"]),
    "index": (lambda rows: rows[0].name, "a"),
    "exists": (lambda rows: rows.exists(), True),
    "contains": (lambda rows: rows.contains(plain(rows).get(name="a")), True),
    "get_or_create": (lambda rows: rows.get_or_create(name="a")[1], False),
    "update_or_create": (lambda rows: rows.update_or_create({"value": 7}, name="a")[0].value, 7),
}
"""What reads or writes the row "a"."""

RETURN_SUCH: dict[str, Call] = {
    "all": lambda rows: rows.all(),
    "filter": lambda rows: rows.filter(name="a"),
    "exclude": lambda rows: rows.exclude(name="b"),
    "complex_filter": lambda rows: rows.complex_filter({"name": "a"}),
    "annotate": lambda rows: rows.annotate(n=Count("entry")),
    "alias": lambda rows: rows.alias(n=Count("entry")).filter(n=0),
    "order_by": lambda rows: rows.order_by("-name"),
    "reverse": lambda rows: rows.reverse(),
    "distinct": lambda rows: rows.distinct(),
    "extra": lambda rows: rows.extra(select={"one": "1"}),
    "defer": lambda rows: rows.defer("value"),
    "only": lambda rows: rows.only("name"),
    "select_related": lambda rows: rows.select_related(None),
    "prefetch_related": lambda rows: rows.prefetch_related("entry_set"),
    "select_for_update": lambda rows: rows.select_for_update(),
    "using": lambda rows: rows.using(rows.db),
    "fetch_mode": lambda rows: rows.fetch_mode(models.FETCH_ONE),
}
"""What returns a queryset that locks."""

REFUSE: dict[str, Call] = {
    "union": lambda rows: rows.union(plain(rows)),
    "union, as the other": lambda rows: plain(rows).union(rows),
    "union, of Django's": lambda rows: list(djangos(rows).union(rows)),
    "intersection": lambda rows: rows.intersection(plain(rows)),
    "difference": lambda rows: plain(rows).difference(rows),
    "raw": lambda rows: rows.raw("SELECT * FROM ledger_counter"),
    "|": lambda rows: rows | plain(rows),
    "&": lambda rows: plain(rows) & rows,
    "^": lambda rows: plain(rows) ^ rows,
    "| of Django's": lambda rows: djangos(rows) | rows,
    "& of Django's": lambda rows: rows & djangos(rows),
    "pk__in": lambda rows: plain(rows).filter(pk__in=rows),
    "pk__in of values": lambda rows: plain(rows).filter(pk__in=rows.values("pk")),
    "pk__in of Django's": lambda rows: djangos(rows).filter(pk__in=rows),
    "Subquery": lambda rows: list(plain(rows).filter(pk__in=Subquery(rows.values("pk")))),
    "Exists": lambda rows: list(plain(rows).filter(Exists(rows))),
    "bulk_create of what is there": lambda rows: rows.bulk_create(
        [Counter(name="a", value=7)],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["value"],
    ),
    "update of values": lambda rows: rows.values("name").update(value=7),
    "aggregate of values": lambda rows: rows.values("name").aggregate(Max("name")),
}
"""What would read or write rows unlocked."""

LOCK_NOTHING: dict[str, Call] = {
    "create": lambda rows: rows.create(name="new"),
    "bulk_create": lambda rows: rows.bulk_create([Counter(name="new")]),
    "none": lambda rows: list(rows.none()),
    "explain": lambda rows: rows.explain(),
}

OTHER = {"as_manager", "query", "db", "ordered", "totally_ordered", "resolve_expression"}
"""What reads and writes nothing, and is documented by Django as such."""


def rows_of(names: list[str], model: Any = Counter) -> Any:
    return RedisLockQuerySet(model).filter(name__in=names).order_by("name")


def plain(rows: Any) -> Any:
    return RedisLockQuerySet(rows.model).filter(name__in=["a", "b"]).order_by("name")


def djangos(rows: Any) -> QuerySet[Any]:
    return QuerySet(rows.model).order_by("name")


@pytest.fixture
def counters(transactional_db: None) -> list[Counter]:
    return [Counter.objects.create(name=name) for name in ("a", "b")]


@pytest.fixture
def b_and_a(counters: list[Counter]) -> Iterator[Callable[[int], Any]]:
    """Have another thread hold one of the rows."""
    holds: list[Any] = []

    def hold(number: int) -> Any:
        holds.append(elsewhere(lock_rows(counters[number]).acquire).result(PATIENCE))
        return holds[-1]

    yield hold
    for each in holds:
        each.release()


def names_locked() -> set[str]:
    return {
        each.name
        for each in Counter.objects.all()
        if inspection.lock(row_of(Counter, "default", each.pk).name)
    }


def state() -> list[Any]:
    return list(Counter.objects.order_by("name").values_list("name", "value"))


DATED = {"dates", "datetimes"}


@pytest.mark.parametrize("method", sorted(LOCK_ALL.keys() - DATED))
def test_all_rows_are_locked_before_any_is_read_or_written(b_and_a: Any, method: str) -> None:
    call, result = LOCK_ALL[method]
    others = b_and_a(1)
    with atomic():
        with pytest.raises(LockNotAvailable, match="is held by"):
            call(rows_of(["a", "b"]).select_for_lock(nowait=True))
        assert {"b"} == names_locked()
    assert [("a", 0), ("b", 0)] == state()
    others.release()
    with atomic():
        assert result == call(rows_of(["a", "b"]).select_for_lock(nowait=True))
        if method != "delete":
            assert {"a", "b"} == names_locked()
    assert set() == names_locked()


@pytest.mark.parametrize("method", sorted(DATED))
def test_rows_are_locked_before_their_dates_are_read(transactional_db: None, method: str) -> None:
    call, result = LOCK_ALL[method]
    user = User.objects.create(username="a")
    others = elsewhere(lock_rows(user).acquire).result(PATIENCE)
    wanted = RedisLockQuerySet(User).filter(pk=user.pk).select_for_lock(nowait=True)
    with atomic(), pytest.raises(LockNotAvailable):
        call(wanted)
    others.release()
    with atomic():
        assert result == call(wanted)
        assert inspection.lock(row_of(User, "default", user.pk).name)


@pytest.mark.parametrize("method", LOCK_ONE)
def test_the_row_is_locked_before_it_is_read_or_written(b_and_a: Any, method: str) -> None:
    call, result = LOCK_ONE[method]
    others = b_and_a(0)
    with atomic(), pytest.raises(LockNotAvailable, match="is held by"):
        call(rows_of(["a", "b"]).select_for_lock(nowait=True))
    assert [("a", 0), ("b", 0)] == state()
    others.release()
    with atomic():
        assert result == call(rows_of(["a", "b"]).select_for_lock(nowait=True))
        assert {"a"} == names_locked()


@pytest.mark.parametrize("method", RETURN_SUCH)
@pytest.mark.usefixtures("counters")
def test_what_is_made_of_a_locking_queryset_locks(method: str) -> None:
    if not hasattr(QuerySet, method):
        pytest.skip("This Django has no such method.")
    with atomic():
        assert list(RETURN_SUCH[method](rows_of(["a", "b"]).select_for_lock()))
        assert "a" in names_locked()


@pytest.mark.parametrize("how", REFUSE)
@pytest.mark.usefixtures("counters")
def test_what_would_read_or_write_rows_unlocked_is_refused(how: str) -> None:
    with atomic(), pytest.raises(NotImplementedError, match=r"list\(\.\.\.select_for_lock\(\)\)"):
        REFUSE[how](rows_of(["a", "b"]).select_for_lock())
    assert [("a", 0), ("b", 0)] == state()


@pytest.mark.parametrize("method", LOCK_NOTHING)
@pytest.mark.usefixtures("counters")
@pytest.mark.filterwarnings("ignore:.*by itself locks nothing")
def test_what_reads_and_writes_no_row_that_is_there_locks_nothing(method: str) -> None:
    with atomic():
        LOCK_NOTHING[method](rows_of(["a", "b"]).select_for_lock())
        assert set() == names_locked()


def test_every_method_of_a_queryset_is_tested_and_in_the_table() -> None:
    tested = {*LOCK_ALL, *LOCK_ONE, *RETURN_SUCH, *REFUSE, *LOCK_NOTHING}
    django = {name for name in dir(QuerySet) if not name.startswith("_")}
    asynchronous = {name for name in django if name[0] == "a" and name[1:] in django}
    assert django - asynchronous - OTHER <= tested
    section = PAGE.read_text(encoding="utf-8").split("## What a locking queryset locks")[1]
    listed = set(re.findall(r"`(\w+)[`(]", section.split("\n## ")[0]))
    assert django - asynchronous - OTHER <= listed


@pytest.mark.parametrize(
    ("mode", "verb", "others_mode"),
    [
        ("key_share", "update", "shared"),
        ("shared", "bulk_update", "shared"),
        ("no_key", "delete", "key_share"),
        ("exclusive", "update", "key_share"),
    ],
)
def test_a_write_takes_at_least_the_mode_that_it_needs(
    counters: list[Counter], mode: Any, verb: str, others_mode: Any
) -> None:
    others: Any = elsewhere(lock_rows(counters[0], others_mode).acquire).result(PATIENCE)
    rows = rows_of(["a", "b"]).select_for_lock(mode, nowait=True)
    with atomic(), pytest.raises(LockNotAvailable):
        LOCK_ALL[verb][0](rows)
    others.release()
    with atomic():
        LOCK_ALL[verb][0](rows)


@pytest.mark.parametrize("verb", ["update", "delete"])
def test_a_write_skips_rows_of_others(b_and_a: Any, verb: str) -> None:
    b_and_a(0)
    with atomic():
        LOCK_ALL[verb][0](rows_of(["a", "b"]).select_for_lock(skip_locked=True))
    assert ("a", 0) in state()
    assert ("b", 0) not in state()


@pytest.mark.usefixtures("counters")
def test_a_slice_is_counted_and_aggregated_and_never_written() -> None:
    rows = rows_of(["a", "b"]).select_for_lock()
    with atomic():
        assert 1 == rows[1:].count()
        assert {"n": "b"} == rows[1:].aggregate(n=Max("name"))
        assert rows[1:].exists()
        assert not rows[2:].exists()
        assert {"b"} == names_locked()
        for write in (lambda: rows[:1].update(value=7), rows[:1].delete):
            with pytest.raises(TypeError, match=r"slice|limit"):
                write()
        assert {"b"} == names_locked()


@pytest.mark.usefixtures("counters")
def test_nothing_is_locked_where_no_row_matches() -> None:
    rows = rows_of(["c"]).select_for_lock()
    with atomic():
        assert (0, {}) == rows.delete()
        assert 0 == rows.update(value=7) == rows.count()
        assert {"n": 0} == rows.aggregate(n=Count("pk"))
        assert not rows.exists()
        assert {} == rows.in_bulk([])
    assert [("a", 0), ("b", 0)] == state()


def test_the_rows_that_are_updated_are_those_that_were_locked(counters: list[Counter]) -> None:
    """A row that begins to match meanwhile is not written, as it is not locked."""
    with atomic():
        rows = RedisLockQuerySet(Counter).filter(value=0).select_for_lock()
        Counter.objects.filter(name="b").update(value=1)
        assert 1 == rows.update(value=2)
    assert [("a", 2), ("b", 1)] == state()


@pytest.mark.usefixtures("counters")
def test_asynchronous_methods_lock_too_and_so_need_a_transaction(in_loop: Any) -> None:
    rows = rows_of(["a"]).select_for_lock()
    for call in (rows.aupdate(value=7), rows.adelete(), rows.acount(), rows.aexists()):
        with pytest.raises(TransactionManagementError, match="needs a transaction"):
            in_loop(call)
    assert [("a", 0), ("b", 0)] == state()


def test_rows_are_prefetched_under_their_locks(transactional_db: None) -> None:
    counter = Counter.objects.create(name="a")
    entry = Entry.objects.create(book="a", number=1, counter=counter)
    wanted = Counter.objects.prefetch_related(
        Prefetch("entry_set", queryset=Entry.objects.select_for_lock())
    )
    with atomic():
        assert [entry] == list(wanted.get().entry_set.all())
        assert inspection.lock(row_of(Entry, "default", entry.pk).name)


def test_a_row_that_is_prefetched_for_two_others_is_given_to_both(transactional_db: None) -> None:
    groups = [Group.objects.create(name=name) for name in ("a", "b")]
    permission = Permission.objects.earliest("pk")
    for each in groups:
        each.permissions.add(permission)
    locking = RedisLockQuerySet(Permission).select_for_lock()
    with atomic():
        found = Group.objects.prefetch_related(Prefetch("permissions", queryset=locking))
        assert [[permission]] * 2 == [list(each.permissions.all()) for each in found]


@pytest.mark.parametrize(
    "made",
    [
        Entry.objects.select_for_lock,
        lambda: Entry.objects.filter(number=1).select_for_lock().order_by("number"),
        lambda: Entry.objects.select_for_lock().create,
    ],
)
def test_a_queryset_that_is_dropped_before_it_is_evaluated_warns(made: Call) -> None:
    rows = [made()]  # type: ignore[call-arg]
    with pytest.warns(RuntimeWarning, match=r"Entry.objects.select_for_lock\(\) by itself locks"):
        rows.clear()


def test_several_instances_go_as_a_list(counters: list[Counter]) -> None:
    first, second = counters
    lock: Any = lock_rows
    for wrong in (lambda: lock(first, second), lambda: lock(first, second, first)):
        with pytest.raises(TypeError, match=r"as a list: lock_rows\(\[first, second\]\)"):
            wrong()
    with lock([first, second]) as rows:
        assert [first, second] == rows


def test_rows_of_every_database_are_locked_before_they_are_written(database: str) -> None:
    row = Counter.objects.using(database).create(name="a")
    others: Any = elsewhere(lock_rows(row).acquire).result(PATIENCE)
    wanted = RedisLockQuerySet(Counter).using(database).filter(name="a")
    calls: list[Call] = [
        lambda rows: rows.aggregate(n=Count("pk"))["n"],
        lambda rows: rows.exists(),
        lambda rows: rows.update(value=7),
        lambda rows: rows.bulk_update([row], ["value"]),
        lambda rows: rows.delete()[0],
    ]
    for call in calls:
        with atomic(using=database), pytest.raises(LockNotAvailable):
            call(wanted.select_for_lock(nowait=True))
    others.release()
    for call in calls:
        with atomic(using=database):
            assert 1 == call(wanted.select_for_lock(nowait=True))
