"""What cannot be locked is refused at once, with the way to put it right."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db.models import Count, FilteredRelation, Q, Window
from django.db.models.functions import RowNumber

from redis_locks.rows import lock_model, lock_rows
from tests.ledger.models import Counter, Entry, NotedCounter
from tests.support.rows import row_of

rows = Counter.objects.all


AS_A_WHOLE = "can only be locked as a whole.* slice the result"


def numbered() -> Any:
    return rows().annotate(number=Window(RowNumber(), order_by="name")).order_by("name")


def windowed() -> Any:
    return numbered().filter(number=1)


def distinct() -> Any:
    return rows().values_list("value").distinct().order_by("value")


def grouped() -> Any:
    return rows().values("value").annotate(number=Count("pk")).order_by("value")


def rows_with_all_relations() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated since Django 6.1
        return Permission.objects.select_related()


def rows_with_filtered_relation() -> Any:
    some = FilteredRelation("counter", condition=Q(counter__value=0))
    return Entry.objects.annotate(some=some).select_related("some")


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (rows, {"nowait": True, "skip_locked": True}, "nowait and skip_locked exclude each other"),
        (rows, {"nowait": True, "wait": 5}, "nowait and wait exclude each other"),
        (rows, {"skip_locked": True, "wait": 5}, "skip_locked and wait exclude each other"),
        (
            rows,
            {"of": ["owner"]},
            r"of must name relations of ledger.Counter.* has entry, guarded, noted",
        ),
        (rows, {"of": ["entry__owner"]}, "ledger.Entry has counter$"),
        (rows, {"of": ["name"]}, "not 'name'"),
        (lambda: rows()[:5], {"limit": 5}, r"limit cannot be used with .*rows\[0:5\]"),
        (lambda: rows()[5:], {"skip_locked": True}, r"skip_locked cannot be .*rows\[5:\]"),
        (lambda: rows().union(rows()), {}, r"rows must not be a union\(\) of querysets"),
        (windowed, {}, r"window function; lock Counter.*filter\(pk__in=rows.values\('pk'\)\)"),
        (
            rows_with_all_relations,
            {},
            r"select_related\(\), which does not name relations of auth.Permission: "
            r".* of=\('self',\)",
        ),
        (rows_with_filtered_relation, {}, r"select_related\('some'\), .* of ledger.Entry: name"),
        (lambda: numbered()[2:4], {}, AS_A_WHOLE),
        (numbered, {"limit": 2}, AS_A_WHOLE),
        (numbered, {"skip_locked": True}, AS_A_WHOLE),
        (lambda: distinct()[:2], {}, AS_A_WHOLE),
        (lambda: grouped()[:2], {}, AS_A_WHOLE),
        (lambda: grouped().filter(number__gt=1), {}, "must not be filtered by an aggregate"),
        (Counter, {}, "rows must be saved before they are locked, not <Counter"),
        (lambda: [Counter(pk=5)], {}, "rows must be saved"),
    ],
)
def test_a_wrong_value_is_named(what: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lock_rows(what(), **options)


def test_a_model_is_no_rows_of_it() -> None:
    way = r"\(ModelBase\): write Counter.objects.all\(\), or lock_model\(Counter\)"
    with pytest.raises(TypeError, match=way):
        lock_rows(Counter)  # type: ignore[arg-type]


def test_a_select_for_lock_is_refused_before_it_is_evaluated() -> None:
    with pytest.raises(ValueError, match="mode must be"):
        Entry.objects.select_for_lock("update")
    with pytest.raises(ValueError, match="exclude each other"):
        Entry.objects.select_for_lock(nowait=True, skip_locked=True)


@pytest.mark.parametrize("what", [Counter(), rows()])
def test_rows_are_not_locked_as_a_model(what: Any) -> None:
    with pytest.raises(TypeError, match=r": lock rows by lock_rows\(\)"):
        lock_model(what)


def test_lock_model_refuses_what_lock_rows_refuses() -> None:
    with pytest.raises(ValueError, match="nowait and wait exclude"):
        lock_model(Counter, nowait=True, wait=1)
    with pytest.raises(ValueError, match="mode must be"):
        lock_model(Counter, "update")  # type: ignore[arg-type]


def test_names_are_those_of_model_database_and_key() -> None:
    assert ("ledger.Counter@other", "ledger.Counter@other:7") == row_of(Counter, "other", 7)
    assert row_of(Counter, "default", "7") == row_of(Counter, "default", 7)
    assert row_of(NotedCounter, "default", 7).model == "ledger.NotedCounter@default"
    assert lock_model(Counter, database="other").name == row_of(Counter, "other", 7).model
    one, other = (row_of(Entry, "default", key) for key in (("a,1", 2), ("a", 12)))
    assert one.name == "ledger.Entry@default:a%2C1,2"
    assert other.name == "ledger.Entry@default:a,12"


def test_the_name_of_a_row_with_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the name of a row's lock .* the limit is 512"):
        row_of(Entry, "default", ("x" * 500, 1))


def test_rows_that_nobody_acquired_are_no_secret() -> None:
    block = [lock_rows(Counter.objects.all())]
    with pytest.warns(RuntimeWarning, match="by itself locks nothing"):
        block.clear()


@pytest.mark.django_db
def test_rows_that_a_window_function_picks_are_locked_through_a_subquery(name: str) -> None:
    row = Counter.objects.create(name=name)
    picked = windowed().filter(name=name)
    with lock_rows(Counter.objects.filter(pk__in=picked.values("pk"))) as found:
        assert [row] == found


@pytest.mark.django_db
@pytest.mark.parametrize("made", [rows_with_all_relations, rows_with_filtered_relation])
def test_rows_with_such_relations_are_locked_once_of_is_given(made: Any) -> None:
    Entry.objects.create(book="b", number=1, counter=Counter.objects.create(name="c"))
    wanted = made().order_by("pk")
    with lock_rows(wanted, of=("self",)) as found:
        assert found
        assert list(wanted) == found


@pytest.fixture
def counters(db: None) -> None:
    for number in range(6):
        counter = rows().create(name=f"c{number}", value=number // 2)
        for key in (1, 2):
            Entry.objects.create(book=f"{number}", number=key, counter=counter)


@pytest.mark.usefixtures("counters")
@pytest.mark.parametrize("made", [numbered, distinct, grouped])
def test_lines_that_depend_on_several_rows_are_locked_as_a_whole(made: Any) -> None:
    with lock_rows(made()) as found:
        assert list(made()) == found


@pytest.mark.usefixtures("counters")
@pytest.mark.parametrize(
    "made",
    [
        lambda: rows().annotate(number=Count("entry")).values("name", "number").order_by("name"),
        lambda: rows().values("pk").annotate(number=Count("entry")).order_by("-name"),
        lambda: rows().filter(entry__number__gt=0).distinct().order_by("name"),
        lambda: rows().filter(entry__number__gt=0).distinct().values("pk", "value").order_by("pk"),
        lambda: numbered().values("name"),
        lambda: rows().values_list("value", flat=True).order_by("name"),
    ],
)
def test_a_slice_of_lines_that_stand_for_a_row_each_is_locked(made: Any) -> None:
    with lock_rows(made()[1:4]) as found:
        assert list(made()[1:4]) == found
    assert 3 == len(found)


@pytest.mark.django_db
def test_a_block_is_entered_once_at_a_time() -> None:
    block = lock_rows(Counter.objects.none())
    with block as none:
        assert [] == none
        none.release()
        with pytest.raises(RuntimeError, match="for each block"), block:
            pass
    with block:
        pass
