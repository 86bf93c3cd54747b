"""Bulk writes under a hold, and models that are written under a hold only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.core import serializers as django_serializers
from django.db import IntegrityError, connections, models
from django.forms import modelform_factory
from django.test.utils import isolate_apps
from rest_framework.serializers import ModelSerializer

from redis_locks import Hold, Lock, StaleHold, UnfencedWrite
from redis_locks.fencing import FencedModel
from redis_locks.rows import lock_rows
from tests.ledger.models import Counter, Guarded

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


def make(database: str, *names: str) -> list[Counter]:
    return [rows_of(database).create(name=name) for name in names]


def kept(database: str, model: Any = Counter, field: str = "value") -> list[tuple[int, int]]:
    return list(rows_of(database, model).order_by("name").values_list(field, "fence"))


def test_a_bulk_update_writes_the_fencing_token(database: str, older: Hold) -> None:
    counters = make(database, "a", "b")
    for number, counter in enumerate(counters):
        counter.value = number + 5
    assert 2 == rows_of(database).fenced(older).bulk_update(counters, ["value"])
    token = older.fencing_token
    assert [(5, token), (6, token)] == kept(database)
    assert [token, token] == [counter.fence for counter in counters]


def test_a_bulk_update_under_an_older_hold_changes_no_row(
    database: str, older: Hold, newer: Hold
) -> None:
    counters = make(database, "a", "b")
    rows_of(database).filter(name="b").fenced(newer).update(value=1)
    for counter in counters:
        counter.value = 7
    with pytest.raises(StaleHold):
        rows_of(database).fenced(older).bulk_update(counters, ["value"])
    assert [(0, 0), (1, newer.fencing_token)] == kept(database)


def test_a_bulk_update_takes_many_rows(database: str, older: Hold) -> None:
    counters = rows_of(database).bulk_create(Counter(name=f"{n}") for n in range(1200))
    for counter in counters:
        counter.value = 1
    assert 1200 == rows_of(database).fenced(older).bulk_update(counters, ["value"])
    assert 1200 == rows_of(database).filter(value=1, fence=older.fencing_token).count()


@pytest.mark.parametrize("fenced", [True, False])
def test_the_fence_is_no_field_of_a_bulk_update(database: str, older: Hold, fenced: bool) -> None:
    rows = rows_of(database)
    with pytest.raises(ValueError, match="the hold writes it"):
        (rows.fenced(older) if fenced else rows).bulk_update(make(database, "a"), ["fence"])


def upsert(database: str, hold: Hold, **values: int) -> list[Counter]:
    counters = [Counter(name=name, value=value) for name, value in values.items()]
    return (
        rows_of(database)
        .fenced(hold)
        .bulk_create(
            counters, update_conflicts=True, update_fields=["value"], unique_fields=["name"]
        )
    )


def test_an_upsert_inserts_and_updates_with_the_fencing_token(database: str, older: Hold) -> None:
    (first,) = make(database, "a")
    counters = upsert(database, older, a=1, b=2)
    assert [(1, older.fencing_token), (2, older.fencing_token)] == kept(database)
    assert first.pk == counters[0].pk
    assert {first.pk, counters[1].pk} == set(rows_of(database).values_list("pk", flat=True))


def test_upserted_instances_are_saved_ones(database: str, older: Hold) -> None:
    make(database, "a")
    for counter in upsert(database, older, a=1, b=2):
        assert (False, database) == (counter._state.adding, counter._state.db)
        counter.validate_unique()
        with lock_rows(counter) as rows:
            assert [counter] == rows


def test_an_upserted_instance_does_not_bring_a_deleted_row_back(
    database: str, older: Hold, newer: Hold
) -> None:
    (counter,) = upsert(database, older, a=1)
    rows_of(database).fenced(newer).delete()
    with pytest.raises(StaleHold, match="is gone"):
        counter.save(hold=older)
    assert [] == kept(database)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_of_several_upserts_of_one_row_the_last_counts(
    database: str, older: Hold, there: bool, batch_size: int | None
) -> None:
    if there:
        make(database, "a")
    counters = [Counter(name="a", value=value) for value in (1, 2, 3)]
    rows_of(database).fenced(older).bulk_create(
        counters,
        batch_size,
        update_conflicts=True,
        update_fields=["value"],
        unique_fields=["name"],
    )
    assert [(3, older.fencing_token)] == kept(database)
    assert 1 == len({counter.pk for counter in counters})


def test_an_upsert_under_an_older_hold_writes_no_row(
    database: str, older: Hold, newer: Hold
) -> None:
    make(database, "a")
    rows_of(database).fenced(newer).update(value=9)
    with pytest.raises(StaleHold):
        upsert(database, older, a=1, b=2)
    assert [(9, newer.fencing_token)] == kept(database)
    upsert(database, newer, a=1, b=2)
    assert 2 == rows_of(database).count()


def test_a_row_that_a_later_hold_inserts_before_the_upsert_is_not_overwritten(
    database: str, older: Hold, newer: Hold
) -> None:
    todo = [lambda: Counter(name="b", value=9).save(hold=newer, using=database)]

    def insert_first(execute: Any, sql: str, *args: Any) -> Any:
        if todo and sql.startswith("INSERT"):
            todo.pop()()
        return execute(sql, *args)

    with connections[database].execute_wrapper(insert_first), pytest.raises(StaleHold):
        upsert(database, older, a=1, b=2)
    assert not todo


def test_an_upsert_that_other_columns_forbid_says_so(database: str, older: Hold) -> None:
    (counter,) = make(database, "a")
    rows = rows_of(database, Guarded)
    rows.create(name="first", number=1, counter=counter)
    other = Guarded(name="second", number=1, counter=counter)
    with pytest.raises(IntegrityError, match="by other columns"):
        rows.fenced(older).bulk_create(
            [other], update_conflicts=True, update_fields=["number"], unique_fields=["name"]
        )


@pytest.mark.parametrize(
    "options",
    [
        {"update_conflicts": True},
        {"update_conflicts": True, "update_fields": ["value"]},
        {"update_conflicts": True, "update_fields": ["fence"], "unique_fields": ["name"]},
    ],
)
def test_an_upsert_needs_to_know_the_fields(
    database: str, older: Hold, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"unique_fields|the hold writes it"):
        rows_of(database).fenced(older).bulk_create([Counter(name="a")], **options)


def test_new_rows_get_the_fencing_token(database: str, older: Hold) -> None:
    fenced = rows_of(database).fenced(older)
    fenced.bulk_create([Counter(name="a"), Counter(name="b")])
    fenced.bulk_create([Counter(name="b"), Counter(name="c")], ignore_conflicts=True)
    assert older.fencing_token == fenced.create(name="d").fence
    assert [(0, older.fencing_token)] * 4 == kept(database)


# A model that requires a hold


def guarded(database: str, **values: Any) -> Guarded:
    return rows_of(database, Guarded).create(name="row", **values)


@pytest.mark.parametrize(
    "write",
    [
        lambda row, rows: row.save(),
        lambda row, rows: row.save(update_fields=["number"]),
        lambda row, rows: row.delete(),
        lambda row, rows: rows.update(number=9),
        lambda row, rows: rows.all().delete(),
        lambda row, rows: rows.filter(pk=row.pk).bulk_update([row], ["number"]),
        lambda row, rows: rows.update_or_create(name="row", defaults={"number": 9}),
        lambda row, rows: rows.bulk_create(
            [Guarded(name="row", number=9)],
            update_conflicts=True,
            update_fields=["number"],
            unique_fields=["name"],
        ),
        lambda row, rows: row.counter.guarded_set.clear(),
    ],
)
def test_a_write_without_a_hold_is_refused(database: str, write: Any) -> None:
    row = guarded(database, counter=make(database, "a")[0])
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
    rows.fenced(older).bulk_create(
        [row], update_conflicts=True, update_fields=["number"], unique_fields=["name"]
    )
    assert 1 == rows.fenced(older).delete()[0]
    other = guarded(database)
    other.delete(hold=older)
    assert not rows.exists()


def test_a_new_instance_does_not_overwrite_a_row(database: str) -> None:
    row = guarded(database)
    with pytest.raises(IntegrityError):
        Guarded(pk=row.pk, name="other").save(using=database)
    assert "row" == rows_of(database, Guarded).get().name


def test_fenced_must_be_one_of_two_words() -> None:
    with pytest.raises(ValueError, match='must be "optional" or "required"'):

        class Wrong(FencedModel):
            fenced = "yes"  # type: ignore[assignment]

            class Meta:
                app_label = "ledger"
                abstract = True


# The column


def test_forms_and_serializers_of_all_fields_leave_the_fence_out() -> None:
    class CounterSerializer(ModelSerializer):
        class Meta:
            model = Counter
            fields = "__all__"

    assert {"id", "name", "value"} == set(CounterSerializer().fields)
    assert {"name", "value"} == set(modelform_factory(Counter, fields="__all__").base_fields)
    assert "fence" not in django_serializers.serialize("json", [Counter(pk=1, name="a")])


def test_migrations_see_a_plain_column() -> None:
    _, path, _, options = Counter._meta.get_field("fence").deconstruct()
    assert ("django.db.models.BigIntegerField", {"default": 0, "editable": False}) == (
        path,
        options,
    )


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
