"""Fenced rows: a write under an older hold than the last one that wrote matches no row."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core import serializers as django_serializers
from django.db import IntegrityError, connections, models
from django.db.models import F
from django.forms import modelform_factory
from django.test.utils import CaptureQueriesContext, isolate_apps
from rest_framework.serializers import ModelSerializer

from redis_locks import Hold, Lock, LockLost, StaleHold, UnfencedWrite, inspection
from redis_locks.fencing import FencedModel
from tests.elsewhere import in_thread
from tests.ledger.models import Counter, Entry, Guarded, NotedCounter, TitledCounter
from tests.support import stored
from tests.support.parties import held
from tests.support.world import granted, keys_of

FENCING = (Path(__file__).parents[2] / "docs" / "howto" / "fencing.md").read_text(encoding="utf-8")


@pytest.fixture
def older(name: str) -> Hold:
    with Lock(name, wait=0) as hold:
        return hold


@pytest.fixture
def newer(name: str, older: Hold) -> Hold:
    with Lock(name, wait=0) as hold:
        return hold


def rows_of(database: str, model: Any = Counter) -> Any:
    return model.objects.using(database)


def make(database: str, name: str = "row", **fields: Any) -> Counter:
    made: Counter = rows_of(database).create(name=name, **fields)
    return made


def kept(database: str, model: Any = Counter, field: str = "value") -> list[tuple[int, int]]:
    return list(rows_of(database, model).order_by("pk").values_list(field, "fence"))


UPSERT = {"update_conflicts": True, "unique_fields": ["name"]}


def upsert(rows: Any, hold: Hold | int, *values: tuple[str, int], **options: Any) -> Any:
    counters = [Counter(name=name, value=value) for name, value in values]
    return rows.fenced(hold).bulk_create(counters, update_fields=["value"], **UPSERT, **options)


TOUCHES: dict[str, Callable[[Any, Any, Any], object]] = {
    "save": lambda rows, row, hold: row.save(hold=hold),
    "save fields": lambda rows, row, hold: row.save(update_fields=["value"], hold=hold),
    "delete": lambda rows, row, hold: row.delete(hold=hold),
    "update": lambda rows, row, hold: rows.fenced(hold).update(value=F("value") + 1),
    "bulk update": lambda rows, row, hold: rows.fenced(hold).bulk_update([*rows], ["value"]),
    "delete all": lambda rows, row, hold: rows.fenced(hold).delete(),
    "upsert": lambda rows, row, hold: upsert(rows, hold, ("other", 5), ("row", 7)),
    "read": lambda rows, row, hold: rows.fenced(hold).get(pk=row.pk),
}
"""What may be done to a row under a hold, or to all of them."""


@pytest.mark.parametrize("touch", TOUCHES)
def test_whoever_comes_late_touches_no_row_at_all(
    database: str, older: Hold, newer: Hold, touch: str
) -> None:
    other, late = make(database, "other"), make(database)
    rows_of(database).filter(name="row").fenced(newer).update(value=2)
    rows, late.value = rows_of(database).filter(name__in=["other", "row"]), 1
    with pytest.raises(StaleHold, match=f"fencing token {newer.fencing_token}, after"):
        TOUCHES[touch](rows, late, older)
    assert [(0, 0), (2, newer.fencing_token)] == kept(database)
    assert 0 == late.fence
    TOUCHES[touch](rows, late, newer.fencing_token)
    for left in rows:
        assert left.fence in {newer.fencing_token, *([0] if left == other else [])}


@pytest.mark.parametrize("touch", [each for each in TOUCHES if each != "upsert"])
@pytest.mark.parametrize("model", [NotedCounter, TitledCounter])
def test_a_row_of_two_tables_is_guarded_by_the_fence_of_one(
    database: str, older: Hold, newer: Hold, touch: str, model: Any
) -> None:
    text = "note" if model is NotedCounter else "title"
    rows = rows_of(database, model)
    rows.create()
    late, row = rows.get(), rows.get()
    setattr(row, text, "second")
    row.save(hold=newer)
    setattr(late, text, "late")
    with pytest.raises(StaleHold):
        TOUCHES[touch](rows, late, older)
    assert ("second", newer.fencing_token) == rows.values_list(text, "fence").get()
    TOUCHES[touch](rows, late, newer)


@pytest.mark.parametrize("pk", [None, 77])
def test_a_new_row_has_the_fencing_token(database: str, older: Hold, pk: int | None) -> None:
    Counter(pk=pk, name="row", value=7).save(hold=older, using=database)
    assert older.fencing_token == rows_of(database).fenced(older).create(name="b").fence
    assert [(0, older.fencing_token), (7, older.fencing_token)] == sorted(kept(database))


def test_new_rows_get_the_fencing_token(database: str, older: Hold) -> None:
    fenced = rows_of(database).fenced(older)
    fenced.bulk_create([Counter(name="a"), Counter(name="b")])
    fenced.bulk_create([Counter(name="b"), Counter(name="c")], ignore_conflicts=True)
    assert [(0, older.fencing_token)] * 3 == kept(database)


def test_a_save_under_a_hold_takes_names_only(database: str, older: Hold) -> None:
    """An `update_fields` without its name would leave the fence out."""
    with pytest.raises(TypeError, match="takes its other arguments by name"):
        make(database).save(False, False, None, ["value"], hold=older)


def test_a_row_that_is_gone_is_not_brought_back(database: str, older: Hold) -> None:
    counter = make(database)
    rows_of(database).all().delete()
    with pytest.raises(StaleHold, match="is gone"):
        counter.save(hold=older)
    assert [] == kept(database)


def test_a_save_without_a_hold_leaves_the_fence_as_it_is(
    database: str, older: Hold, newer: Hold
) -> None:
    loaded_before = make(database)
    rows_of(database).get().save(hold=newer)
    loaded_before.value = 3
    loaded_before.save()
    assert [(3, newer.fencing_token)] == kept(database)
    with pytest.raises(StaleHold):
        loaded_before.save(hold=older)


def test_a_fenced_update_that_changes_what_was_filtered_by_is_fine(
    database: str, older: Hold
) -> None:
    make(database, value=1)
    assert 1 == rows_of(database).filter(value=1).fenced(older).update(value=2)
    assert 0 == rows_of(database).filter(value=1).fenced(older).update(value=3)


@pytest.mark.parametrize("wrong", [0, True, "12"])
def test_what_is_no_hold_is_refused(database: str, wrong: Any) -> None:
    for touch in (rows_of(database).fenced, lambda hold: make(database).save(hold=hold)):
        with pytest.raises(TypeError, match="hold must be a Hold or the fencing token"):
            touch(wrong)


def test_a_late_write_after_the_successor_has_only_read_is_refused(
    database: str, older: Hold, newer: Hold
) -> None:
    late = make(database, value=100)
    successor = rows_of(database).fenced(newer).get(name="row")
    late.value = 110
    read = f"read or written with fencing token {newer.fencing_token}"
    with pytest.raises(StaleHold, match=read):
        late.save(hold=older)
    successor.value += 1
    successor.save(hold=newer)
    assert [(101, newer.fencing_token)] == kept(database)


def test_a_read_of_no_row_or_of_several_says_so_as_django_does(database: str, older: Hold) -> None:
    rows = rows_of(database)
    with pytest.raises(Counter.DoesNotExist):
        rows.fenced(older).get(name="row")
    rows.create(name="a")
    rows.create(name="b")
    with pytest.raises(Counter.MultipleObjectsReturned):
        rows.fenced(older).get(value=0)
    assert (0, 0) == kept(database)[0]


@contextmanager
def before_query(database: str, fits: Callable[[str], bool], work: Any) -> Iterator[None]:
    """Do it when the first query that fits is about to be sent, whatever was read before."""
    todo = [work]

    def wrapper(execute: Any, sql: str, *args: Any) -> Any:
        if todo and fits(sql):
            todo.pop()()
        return execute(sql, *args)

    with connections[database].execute_wrapper(wrapper):
        yield
    assert not todo


def after_the_fences_are_written() -> Callable[[str], bool]:
    """Fits what is sent after the first UPDATE and the query that looks for later fences."""
    seen = 0

    def fits(sql: str) -> bool:
        nonlocal seen
        if sql.startswith("UPDATE") or (seen and not sql.startswith("SAVEPOINT")):
            seen += 1
        return seen > 2

    return fits


@pytest.mark.parametrize("late_work", ["delete", "bulk_update", "get"])
def test_a_row_that_a_later_hold_brings_into_the_filter_is_left_alone(
    database: str, older: Hold, newer: Hold, late_work: str
) -> None:
    """The fences of what matches are written first. What matches only then is another hold's."""
    counter = make(database, value=1)
    late = rows_of(database).filter(value=2).fenced(older)

    def write() -> None:
        rows_of(database).fenced(newer).update(value=2)

    with before_query(database, after_the_fences_are_written(), write):
        if late_work == "delete":
            assert 0 == late.delete()[0]
        elif late_work == "bulk_update":
            counter.value = 7
            assert 0 == late.bulk_update([counter], ["value"])
        else:
            with pytest.raises(StaleHold):
                late.get()
            # The successor's write is in the same transaction here, and so undone with it.
            assert 1 == rows_of(database).fenced(newer).update(value=2)
    assert [(2, newer.fencing_token)] == kept(database)


@pytest.mark.parametrize("touch", ["get", "update"])
def test_a_child_s_row_that_a_later_hold_wrote_between_two_queries_is_refused(
    database: str, older: Hold, newer: Hold, touch: str
) -> None:
    rows = rows_of(database, NotedCounter)
    rows.create(name="row")
    late = rows.fenced(older)

    def write() -> None:
        rows_of(database).fenced(newer).update(value=2)

    # The successor's write is in the same transaction here, and so undone with it.
    first = before_query(database, lambda sql: sql.startswith("UPDATE"), write)
    with first, pytest.raises(StaleHold):
        late.get() if touch == "get" else late.update(value=1, note="late")
    assert 1 == rows.fenced(newer).update(value=3, note="new")
    assert ("new", 3) == rows.values_list("note", "value").get()


def test_rows_found_by_a_join_are_refused_by_the_update_itself(
    database: str, name: str, older: Hold, newer: Hold
) -> None:
    Entry.objects.using(database).create(book=name, number=1, counter=make(database))
    rows = rows_of(database).filter(entry__book=name)
    with CaptureQueriesContext(connections[database]) as queries:
        assert 1 == rows.fenced(newer).update(value=2)
    first = next(query["sql"] for query in queries if query["sql"].startswith("UPDATE"))
    # Not within the subquery, which PostgreSQL does not repeat for a row that changes meanwhile.
    assert '"fence" <=' in first.replace(first[first.index("IN (") : first.rindex(")")], "")
    with pytest.raises(StaleHold):
        rows.fenced(older).update(value=1)
    assert [(2, newer.fencing_token)] == kept(database)


# A hold that is known to be lost


def test_a_hold_that_is_lost_writes_and_reads_nothing_even_with_no_successor(
    database: str, name: str, client: redis.Redis
) -> None:
    counter = make(database)
    with held(name) as hold:
        rows = rows_of(database).fenced(hold)
        stored.drop_holder(client, keys_of(name).lock)
        with pytest.raises(LockLost):
            hold.extend(10)
        assert hold.is_lost
        with CaptureQueriesContext(connections[database]) as queries:
            for touch in (
                lambda: counter.save(hold=hold),
                lambda: rows.update(value=1),
                lambda: rows.get(name="row"),
                lambda: rows_of(database).fenced(hold),
            ):
                with pytest.raises(StaleHold, match="was lost: nothing was saved"):
                    touch()
        assert not [query for query in queries if "ledger_counter" in query["sql"]]
    assert [(0, 0)] == kept(database)


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
    assert [(2, newer.fencing_token)] == kept("default")


def test_the_fencing_token_of_a_force_release_shuts_out_the_late_holder_at_once(
    database: str, name: str
) -> None:
    make(database)
    rows = rows_of(database)
    late = granted(in_thread(Lock(name).acquire))
    counter = rows.fenced(late).get(name="row")
    released = inspection.force_release(name)
    rows.fenced(released.fencing_token).update()
    counter.value = 1
    with pytest.raises(StaleHold):
        counter.save(hold=late.fencing_token)  # where nobody has told it that it is lost
    with Lock(name, wait=0) as successor:
        rows.fenced(successor).update(value=2)
    assert [(2, successor.fencing_token)] == kept(database)
    with pytest.raises(LockLost):
        late.release()


# Upserts


def test_an_upsert_inserts_and_updates_with_the_fencing_token(database: str, older: Hold) -> None:
    first = make(database, "a")
    counters = upsert(rows_of(database), older, ("a", 1), ("b", 2))
    assert [(1, older.fencing_token), (2, older.fencing_token)] == kept(database)
    assert first.pk == counters[0].pk
    assert {first.pk, counters[1].pk} == set(rows_of(database).values_list("pk", flat=True))


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_of_several_upserts_of_one_row_the_last_counts(
    database: str, older: Hold, there: bool, batch_size: int | None
) -> None:
    if there:
        make(database, "a")
    counters = upsert(rows_of(database), older, ("a", 1), ("a", 2), ("a", 3), batch_size=batch_size)
    assert [(3, older.fencing_token)] == kept(database)
    assert 1 == len({counter.pk for counter in counters})


def test_a_row_that_a_later_hold_inserts_before_the_upsert_is_not_overwritten(
    database: str, older: Hold, newer: Hold
) -> None:
    def insert() -> None:
        Counter(name="b", value=9).save(hold=newer, using=database)

    first = before_query(database, lambda sql: sql.startswith("INSERT"), insert)
    with first, pytest.raises(StaleHold):
        upsert(rows_of(database), older, ("a", 1), ("b", 2))


@pytest.mark.parametrize(
    "options",
    [
        {"update_conflicts": True},
        UPSERT | {"update_fields": ["fence"]},
    ],
)
def test_an_upsert_needs_to_know_the_fields(
    database: str, older: Hold, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"unique_fields|the hold writes it"):
        rows_of(database).fenced(older).bulk_create([Counter(name="a")], **options)


@pytest.mark.parametrize("fenced", [True, False])
def test_the_fence_is_no_field_of_a_bulk_update(database: str, older: Hold, fenced: bool) -> None:
    rows = rows_of(database)
    with pytest.raises(ValueError, match="the hold writes it"):
        (rows.fenced(older) if fenced else rows).bulk_update([make(database)], ["fence"])


# A model that requires a hold


def guarded(database: str, **values: Any) -> Guarded:
    return rows_of(database, Guarded).create(name="row", **values)


@pytest.mark.parametrize(
    "write",
    [
        lambda row, rows: row.save(),
        lambda row, rows: row.delete(),
        lambda row, rows: rows.update(number=9),
        lambda row, rows: rows.all().delete(),
        lambda row, rows: rows.filter(pk=row.pk).bulk_update([row], ["number"]),
        lambda row, rows: rows.bulk_create(
            [Guarded(name="row", number=9)], update_fields=["number"], **UPSERT
        ),
        lambda row, rows: row.counter.guarded_set.clear(),
    ],
)
def test_a_write_without_a_hold_is_refused(database: str, write: Any) -> None:
    row = guarded(database, counter=make(database))
    row.number = 9
    with pytest.raises(UnfencedWrite, match=r"ledger\.Guarded has fenced = .* needs a hold: write"):
        write(row, rows_of(database, Guarded))
    assert [(0, 0)] == kept(database, Guarded, "number")


def test_writes_under_a_hold_are_accepted(database: str, older: Hold) -> None:
    row, rows = guarded(database), rows_of(database, Guarded)
    row.save(hold=older)
    rows.fenced(older).update(number=1)
    rows.select_for_lock().fenced(older).get(name="row")
    rows.fenced(older).bulk_update([row], ["number"])
    rows.fenced(older).bulk_create([row], update_fields=["number"], **UPSERT)
    assert 1 == rows.fenced(older).delete()[0]
    other = guarded(database)
    other.delete(hold=older)
    assert not rows.exists()


# The column


def test_forms_and_serializers_of_all_fields_leave_the_fence_out() -> None:
    class CounterSerializer(ModelSerializer):
        class Meta:
            model = Counter
            fields = "__all__"

    assert {"id", "name", "value"} == set(CounterSerializer().fields)
    assert {"name", "value"} == set(modelform_factory(Counter, fields="__all__").base_fields)
    assert "fence" not in django_serializers.serialize("json", [Counter(pk=1, name="a")])


@isolate_apps("tests.ledger")
def test_a_process_without_the_column_inserts_while_it_is_there(database: str) -> None:
    class Old(models.Model):  # noqa: DJ008 - never shown
        name = models.CharField(max_length=10)

        class Meta:
            app_label = "ledger"

    (recipe,) = re.findall(r"models\.BigIntegerField\([^)]*db_default[^)]*\)", FENCING)
    fence = eval(recipe, {"models": models})  # noqa: S307 - our own text
    fence.set_attributes_from_name("fence")
    fence.model = Old
    with connections[database].schema_editor() as editor:
        editor.create_model(Old)
    try:
        Old(name="before").save(using=database)
        with connections[database].schema_editor() as editor:
            editor.add_field(Old, fence)
        Old(name="after").save(using=database)
        with connections[database].cursor() as cursor:
            cursor.execute("SELECT name, fence FROM ledger_old ORDER BY id")
            assert [("before", 0), ("after", 0)] == cursor.fetchall()
    finally:
        with connections[database].schema_editor() as editor:
            editor.delete_model(Old)


def test_an_upsert_that_other_columns_forbid_says_so(database: str, older: Hold) -> None:
    counter = make(database)
    rows = rows_of(database, Guarded)
    rows.create(name="first", number=1, counter=counter)
    other = Guarded(name="second", number=1, counter=counter)
    with pytest.raises(IntegrityError, match="by other columns"):
        rows.fenced(older).bulk_create([other], update_fields=["number"], **UPSERT)


def test_fenced_must_be_one_of_two_words() -> None:
    with pytest.raises(ValueError, match='must be "optional" or "required"'):

        class Wrong(FencedModel):
            fenced = "yes"  # type: ignore[assignment]

            class Meta:
                app_label = "ledger"
                abstract = True
