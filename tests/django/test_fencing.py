"""Fenced rows: a write under an older hold than the last one that wrote matches no row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from django.db import connections
from django.db.models import F
from django.db.models.signals import post_save
from django.template import engines
from django.test.utils import CaptureQueriesContext

from redis_locks import Hold, Lock, LockLost, StaleHold, inspection
from tests.elsewhere import held
from tests.ledger.models import Counter, Entry, NotedCounter, TitledCounter
from tests.support import stored
from tests.support.world import keys_of


@pytest.fixture
def older(name: str) -> Hold:
    return taken(name)


@pytest.fixture
def newer(name: str, older: Hold) -> Hold:
    return taken(name)


def taken(name: str) -> Hold:
    with Lock(name, wait=0) as hold:
        return hold


def row(database: str, **fields: Any) -> Counter:
    return Counter.objects.using(database).create(name="row", **fields)


def kept(database: str, name: str = "row") -> tuple[int, int]:
    found = Counter.objects.using(database).get(name=name)
    return found.value, found.fence


def test_saving_under_a_hold_writes_its_fencing_token(database: str, older: Hold) -> None:
    counter = row(database)
    counter.value = 5
    counter.save(hold=older)
    assert (5, older.fencing_token) == kept(database)
    assert older.fencing_token == counter.fence


def test_a_save_under_an_older_hold_is_refused(database: str, older: Hold, newer: Hold) -> None:
    late, successor = row(database), Counter.objects.using(database).get()
    successor.value = 2
    successor.save(hold=newer)
    late.value = 1
    with pytest.raises(StaleHold, match=f"fencing token {newer.fencing_token}, after"):
        late.save(hold=older)
    assert (2, newer.fencing_token) == kept(database)
    assert 0 == late.fence


def test_one_hold_may_save_many_times(database: str, older: Hold) -> None:
    counter = row(database)
    for value in range(3):
        counter.value = value
        counter.save(hold=older)
    assert (2, older.fencing_token) == kept(database)


def test_a_save_under_a_hold_takes_names_only(database: str, older: Hold) -> None:
    """An `update_fields` without its name would leave the fence out."""
    with pytest.raises(TypeError, match="takes its other arguments by name"):
        row(database).save(False, False, None, ["value"], hold=older)


def test_a_save_under_a_hold_is_one_query(database: str, older: Hold) -> None:
    counter = row(database)
    with CaptureQueriesContext(connections[database]) as queries:
        counter.save(hold=older)
    assert 1 == len(queries)


def test_a_new_row_is_inserted_with_the_fencing_token(database: str, older: Hold) -> None:
    Counter(name="row", value=7).save(hold=older, using=database)
    assert (7, older.fencing_token) == kept(database)


def test_a_new_row_with_a_key_of_its_own_is_inserted(database: str, older: Hold) -> None:
    Counter(pk=77, name="row").save(hold=older, using=database)
    assert (0, older.fencing_token) == kept(database)


def test_update_fields_write_the_fence_as_well(database: str, older: Hold, newer: Hold) -> None:
    counter = row(database, value=1)
    counter.value, counter.name = 2, "not saved"
    counter.save(update_fields=["value"], hold=newer)
    assert (2, newer.fencing_token) == kept(database)
    with pytest.raises(StaleHold):
        counter.save(update_fields=["value"], hold=older)


def test_a_row_that_is_gone_is_not_brought_back(database: str, older: Hold) -> None:
    counter = row(database)
    Counter.objects.using(database).all().delete()
    with pytest.raises(StaleHold, match="is gone"):
        counter.save(hold=older)
    assert not Counter.objects.using(database).exists()


def test_a_save_without_a_hold_leaves_the_fence_as_it_is(
    database: str, older: Hold, newer: Hold
) -> None:
    loaded_before = row(database)
    Counter.objects.using(database).get().save(hold=newer)
    loaded_before.value = 3
    loaded_before.save()
    assert (3, newer.fencing_token) == kept(database)
    with pytest.raises(StaleHold):
        loaded_before.save(hold=older)


def test_a_table_of_a_child_is_guarded_by_its_parent_s_fence(
    database: str, older: Hold, newer: Hold
) -> None:
    noted = NotedCounter.objects.using(database).create(name="row", note="first")
    late = NotedCounter.objects.using(database).get()
    noted.note = "second"
    noted.save(hold=newer)
    late.note = "late"
    with pytest.raises(StaleHold):
        late.save(hold=older)
    assert ("second", newer.fencing_token) == (
        NotedCounter.objects.using(database).values_list("note", "fence").get()
    )


def test_a_fenced_update_writes_its_fencing_token(database: str, older: Hold) -> None:
    row(database, value=1)
    rows = Counter.objects.using(database)
    assert 1 == rows.filter(name="row").fenced(older).update(value=F("value") + 1)
    assert (2, older.fencing_token) == kept(database)


def test_a_fenced_update_under_an_older_hold_is_refused(
    database: str, older: Hold, newer: Hold
) -> None:
    row(database)
    rows = Counter.objects.using(database)
    rows.fenced(newer).update(value=2)
    with pytest.raises(StaleHold, match="nothing was saved"):
        rows.fenced(older).update(value=1)
    assert (2, newer.fencing_token) == kept(database)


def test_a_fenced_update_is_of_all_rows_or_none(database: str, older: Hold, newer: Hold) -> None:
    rows = Counter.objects.using(database)
    for name in ("a", "b", "c"):
        rows.create(name=name)
    rows.filter(name="b").fenced(newer).update(value=2)
    with pytest.raises(StaleHold):
        rows.fenced(older).update(value=1)
    assert [0, 2, 0] == list(rows.order_by("name").values_list("value", flat=True))


def test_a_fenced_update_that_changes_what_was_filtered_by_is_fine(
    database: str, older: Hold
) -> None:
    row(database, value=1)
    assert 1 == Counter.objects.using(database).filter(value=1).fenced(older).update(value=2)
    assert 0 == Counter.objects.using(database).filter(value=1).fenced(older).update(value=3)


def test_a_deletion_under_an_older_hold_is_refused(database: str, older: Hold, newer: Hold) -> None:
    counter = row(database)
    Counter.objects.using(database).fenced(newer).get()
    rows = Counter.objects.using(database).filter(name="row")
    for delete in (lambda: counter.delete(hold=older), rows.fenced(older).delete):
        with pytest.raises(StaleHold, match=f"fencing token {newer.fencing_token}, after"):
            delete()
    assert (0, newer.fencing_token) == kept(database)
    assert 1 == counter.delete(hold=newer)[0]
    assert not rows.exists()


def test_a_fenced_deletion_is_of_all_rows_or_none(database: str, older: Hold, newer: Hold) -> None:
    first, second = row(database), Counter.objects.using(database).create(name="other")
    second.save(hold=newer)
    rows = Counter.objects.using(database).filter(pk__in=[first.pk, second.pk])
    with pytest.raises(StaleHold):
        rows.fenced(older).delete()
    assert (0, 0) == kept(database)
    assert 2 == rows.fenced(newer).delete()[0]
    assert not rows.exists()


def test_a_child_s_row_is_deleted_under_its_parent_s_fence(
    database: str, older: Hold, newer: Hold
) -> None:
    noted = NotedCounter.objects.using(database).create(name="row")
    noted.save(hold=newer)
    with pytest.raises(StaleHold):
        noted.delete(hold=older)
    assert (0, newer.fencing_token) == kept(database)
    noted.delete(hold=newer.fencing_token)
    assert not Counter.objects.using(database).exists()


def test_a_template_neither_saves_nor_deletes(database: str) -> None:
    counter = row(database)
    template = engines["django"].from_string("{{ row.save }}{{ row.delete }}{{ row.adelete }}")
    assert "" == template.render({"row": counter})
    assert (0, 0) == kept(database)


def test_a_fencing_token_stands_for_its_hold(database: str, older: Hold, newer: Hold) -> None:
    counter = row(database)
    counter.save(hold=newer.fencing_token)
    with pytest.raises(StaleHold):
        counter.save(hold=older.fencing_token)
    with pytest.raises(StaleHold):
        Counter.objects.using(database).fenced(older.fencing_token).update(value=1)


@pytest.mark.parametrize("wrong", [0, -1, True, "12", 1.5, None])
def test_what_is_no_hold_is_refused(database: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match="hold must be a Hold or the fencing token"):
        Counter.objects.using(database).fenced(wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="hold must be a Hold or the fencing token"):
            Counter(name="row").save(hold=wrong, using=database)


# Reading under a hold


def test_a_late_write_after_the_successor_has_only_read_is_refused(
    database: str, older: Hold, newer: Hold
) -> None:
    late = row(database, value=100)
    successor = Counter.objects.using(database).fenced(newer).get(name="row")
    late.value = 110
    with pytest.raises(
        StaleHold, match=f"read or written with fencing token {newer.fencing_token}"
    ):
        late.save(hold=older)
    with pytest.raises(StaleHold):
        Counter.objects.using(database).fenced(older).update(value=F("value") + 10)
    successor.value += 1
    successor.save(hold=newer)
    assert (101, newer.fencing_token) == kept(database)


def test_a_read_under_a_hold_says_what_an_older_one_wrote_before(
    database: str, older: Hold, newer: Hold
) -> None:
    row(database)
    Counter.objects.using(database).fenced(older).update(value=5)
    found = Counter.objects.using(database).fenced(newer).get(name="row")
    assert (5, newer.fencing_token) == (found.value, found.fence)


def test_a_read_under_an_older_hold_is_refused(database: str, older: Hold, newer: Hold) -> None:
    row(database)
    rows = Counter.objects.using(database)
    rows.fenced(newer).get(name="row")
    with pytest.raises(StaleHold):
        rows.fenced(older).get(name="row")
    assert newer.fencing_token == kept(database)[1]


def test_a_read_of_no_row_or_of_several_says_so_as_django_does(database: str, older: Hold) -> None:
    rows = Counter.objects.using(database)
    with pytest.raises(Counter.DoesNotExist):
        rows.fenced(older).get(name="row")
    rows.create(name="a")
    rows.create(name="b")
    with pytest.raises(Counter.MultipleObjectsReturned):
        rows.fenced(older).get(value=0)
    assert (0, 0) == kept(database, "a")


@contextmanager
def before_the_first_update(database: str, work: Any) -> Iterator[None]:
    """Do it when the first UPDATE is about to be sent, whatever was read before."""
    todo = [work]

    def wrapper(execute: Any, sql: str, *args: Any) -> Any:
        if todo and sql.startswith("UPDATE"):
            todo.pop()()
        return execute(sql, *args)

    with connections[database].execute_wrapper(wrapper):
        yield
    assert not todo


@contextmanager
def after_the_fences_are_written(database: str, work: Any) -> Iterator[None]:
    """Do it after the first UPDATE and the query that looks for later fences."""
    todo, seen = [work], 0

    def wrapper(execute: Any, sql: str, *args: Any) -> Any:
        nonlocal seen
        if sql.startswith("UPDATE") or (seen and not sql.startswith("SAVEPOINT")):
            seen += 1
        if todo and seen > 2:
            todo.pop()()
        return execute(sql, *args)

    with connections[database].execute_wrapper(wrapper):
        yield
    assert not todo


@pytest.mark.parametrize("late_work", ["delete", "bulk_update", "get"])
def test_a_row_that_a_later_hold_brings_into_the_filter_is_left_alone(
    database: str, older: Hold, newer: Hold, late_work: str
) -> None:
    """The fences of what matches are written first. What matches only then is another hold's."""
    counter = row(database, value=1)
    late = Counter.objects.using(database).filter(value=2).fenced(older)

    def write() -> None:
        Counter.objects.using(database).fenced(newer).update(value=2)

    with after_the_fences_are_written(database, write):
        if late_work == "delete":
            assert 0 == late.delete()[0]
        elif late_work == "bulk_update":
            counter.value = 7
            assert 0 == late.bulk_update([counter], ["value"])
        else:
            with pytest.raises(StaleHold):
                late.get()
            # The successor's write is in the same transaction here, and so undone with it.
            assert 1 == Counter.objects.using(database).fenced(newer).update(value=2)
    assert (2, newer.fencing_token) == kept(database)


@pytest.mark.parametrize("touch", ["get", "update"])
def test_a_child_s_row_that_a_later_hold_wrote_between_two_queries_is_refused(
    database: str, older: Hold, newer: Hold, touch: str
) -> None:
    rows = NotedCounter.objects.using(database)
    rows.create(name="row")
    late = rows.fenced(older)

    def write() -> None:
        Counter.objects.using(database).fenced(newer).update(value=2)

    # The successor's write is in the same transaction here, and so undone with it.
    with before_the_first_update(database, write), pytest.raises(StaleHold):
        late.get() if touch == "get" else late.update(value=1, note="late")
    assert 1 == rows.fenced(newer).update(value=3, note="new")
    assert ("new", 3) == rows.values_list("note", "value").get()


def test_rows_found_by_a_join_are_refused_by_the_update_itself(
    database: str, name: str, older: Hold, newer: Hold
) -> None:
    Entry.objects.using(database).create(book=name, number=1, counter=row(database))
    rows = Counter.objects.using(database).filter(entry__book=name)
    with CaptureQueriesContext(connections[database]) as queries:
        assert 1 == rows.fenced(newer).update(value=2)
    first = next(query["sql"] for query in queries if query["sql"].startswith("UPDATE"))
    # Not within the subquery, which PostgreSQL does not repeat for a row that changes meanwhile.
    assert '"fence" <=' in first.replace(first[first.index("IN (") : first.rindex(")")], "")
    with pytest.raises(StaleHold):
        rows.fenced(older).update(value=1)
    assert (2, newer.fencing_token) == kept(database)


# A hold that is known to be lost


def test_a_hold_that_is_lost_writes_and_reads_nothing_even_with_no_successor(
    database: str, name: str, client: redis.Redis
) -> None:
    counter = row(database)
    with held(Lock(name)) as hold:
        rows = Counter.objects.using(database).fenced(hold)
        stored.drop_holder(client, keys_of(name).lock)
        with pytest.raises(LockLost):
            hold.extend(10)
        assert hold.is_lost
        with CaptureQueriesContext(connections[database]) as queries:
            for touch in (
                lambda: counter.save(hold=hold),
                lambda: rows.update(value=1),
                lambda: rows.get(name="row"),
                lambda: Counter.objects.using(database).fenced(hold),
            ):
                with pytest.raises(StaleHold, match="was lost: nothing was saved"):
                    touch()
        assert not [query for query in queries if "ledger_counter" in query["sql"]]
    assert (0, 0) == kept(database)


# Parents and signals


def test_a_row_beside_a_parent_s_without_a_fence_is_saved_and_fenced(
    database: str, older: Hold, newer: Hold
) -> None:
    rows = TitledCounter.objects.using(database)
    titled = rows.create(title="first")
    late = rows.get()
    titled.title = "second"
    titled.save()
    titled.value = 2
    titled.save(hold=newer)
    late.title = "late"
    with pytest.raises(StaleHold):
        late.save(hold=older)
    assert ("second", 2, newer.fencing_token) == rows.values_list("title", "value", "fence").get()


def test_a_handler_may_save_again_under_the_hold(database: str, older: Hold) -> None:
    def again(instance: Counter, **_: Any) -> None:
        if instance.value == 1:
            instance.value = 2
            instance.save(hold=older)

    counter = row(database)
    post_save.connect(again, sender=Counter)
    try:
        counter.value = 1
        counter.save(hold=older)
    finally:
        post_save.disconnect(again, sender=Counter)
    assert (2, older.fencing_token) == kept(database)


@pytest.mark.django_db(transaction=True)
def test_the_async_twins_check_as_well(older: Hold, newer: Hold) -> None:
    async def main() -> None:
        counter = await Counter.objects.acreate(name="row")
        await Counter.objects.fenced(older).aget(name="row")
        await counter.asave(hold=newer)
        with pytest.raises(StaleHold):
            await counter.asave(hold=older)
        with pytest.raises(StaleHold):
            await Counter.objects.fenced(older).aupdate(value=1)
        assert 1 == await Counter.objects.fenced(newer).aupdate(value=2)
        with pytest.raises(StaleHold):
            await Counter.objects.fenced(older).abulk_update([counter], ["value"])
        assert 1 == await Counter.objects.fenced(newer).abulk_update([counter], ["name"])
        (made,) = await Counter.objects.fenced(newer).abulk_create([Counter(name="more")])
        assert newer.fencing_token == made.fence
        await made.adelete()

    asyncio.run(main())
    connections["default"].close()
    assert (2, newer.fencing_token) == kept("default")


def test_a_stale_hold_is_a_lost_lock() -> None:
    assert issubclass(StaleHold, LockLost)


def test_the_fencing_token_of_a_force_release_shuts_out_the_late_holder_at_once(
    database: str, name: str
) -> None:
    row(database)
    rows = Counter.objects.using(database)
    with held(Lock(name)) as late:
        counter = rows.fenced(late).get(name="row")
        released = inspection.force_release(name)
        rows.fenced(released.fencing_token).update()
        counter.value = 1
        with pytest.raises(StaleHold):
            counter.save(hold=late.fencing_token)  # where nobody has told it that it is lost
    with Lock(name, wait=0) as successor:
        rows.fenced(successor).update(value=2)
    assert (2, successor.fencing_token) == kept(database)
