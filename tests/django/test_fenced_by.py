"""Writes that name no hold are fenced by the row's own lock, where code around them has it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from asgiref.sync import sync_to_async
from django import forms
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import path
from django.views.generic import DeleteView, UpdateView
from rest_framework import serializers, viewsets
from rest_framework.test import APIRequestFactory

from redis_locks import (
    Lock,
    RedisLockMixin,
    StaleHold,
    UnfencedWrite,
    inspection,
    redis_lock,
    run_once,
)
from redis_locks.fencing import FencedModel, fenced
from redis_locks.integrations.fenced_admin import FencedModelAdmin
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from redis_locks.rows import lock_model, lock_rows
from redis_locks.testing import held, lose_lock, override_locks
from tests.elsewhere import in_thread
from tests.ledger.models import Declared, Strict, Undeclared
from tests.support.world import granted

pytestmark = [
    pytest.mark.urls(__name__),
    pytest.mark.usefixtures("transactional_db", "redis_server"),
]


MODELS: list[Any] = [Declared, Strict]


def row_of(model: Any, name: str) -> Any:
    """Return a row whose lock no other test has."""
    return model.objects.create(pk=abs(hash(name)) % 10**9)


def fence_of(row: Any) -> int:
    found: int = type(row).objects.values_list("fence", flat=True).get(pk=row.pk)
    return found


def form_save(row: Any) -> None:
    form = forms.modelform_factory(type(row), fields=["state"])({"state": "done"}, instance=row)
    form.save()


def serializer_save(row: Any) -> None:
    class S(serializers.ModelSerializer):
        class Meta:
            model = type(row)
            fields = ("state",)

    its = S(row, data={"state": "done"})
    assert its.is_valid()
    its.save()


def save(row: Any) -> None:
    row.state = "done"
    row.save()


def save_fields(row: Any) -> None:
    row.state = "done"
    row.save(update_fields=["state"])


def asave(row: Any) -> None:
    row.state = "done"
    asyncio.run(row.asave())


def update_or_create(row: Any) -> None:
    type(row).objects.update_or_create({"state": "done"}, pk=row.pk)


WRITES: list[Callable[[Any], None]] = [
    save,
    save_fields,
    form_save,
    serializer_save,
    update_or_create,
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("model", MODELS)
def test_a_write_under_the_rows_lock_is_fenced(model: Any, write: Any, name: str) -> None:
    row = row_of(model, name)
    late = copy.copy(row)
    with redis_lock(f"soft:{row.pk}") as hold:
        write(row)
        assert hold.fencing_token == fence_of(row)
    with pytest.raises(StaleHold):
        late.save(hold=hold.fencing_token - 1)
    assert "done" == model.objects.get(pk=row.pk).state


@pytest.mark.parametrize("model", MODELS)
def test_async_code_and_its_threads_are_fenced(model: Any, name: str) -> None:
    row = row_of(model, name)

    async def work() -> int:
        async with redis_lock(f"soft:{row.pk}") as hold:
            await row.asave()
            await sync_to_async(save)(row)
            return hold.fencing_token

    assert asyncio.run(work()) == fence_of(row)


@pytest.mark.parametrize("model", MODELS)
def test_every_kind_of_hold_of_that_name_counts(model: Any, name: str) -> None:
    row = row_of(model, name)
    lock = f"soft:{row.pk}"

    @redis_lock("soft:{pk}")
    def decorated(pk: int) -> None:
        save(row)

    decorated(row.pk)
    tokens = [fence_of(row)]
    with redis_lock("other", lock):  # a set
        save(row)
    tokens.append(fence_of(row))
    with Lock(lock), Lock(lock) as nested, redis_lock("inner"):
        save(row)
        assert nested.fencing_token == fence_of(row)
    tokens.append(fence_of(row))
    hold = granted(Lock(lock).acquire())
    with hold:
        save(row)
    tokens.append(fence_of(row))
    with transaction.atomic():
        with Lock(lock) as kept:
            pass
        save(row)  # the transaction keeps the lock
        assert kept.fencing_token == fence_of(row)
    tokens.append(fence_of(row))
    assert sorted({*tokens}) == tokens


def test_the_nearest_hold_of_another_name_does_not_count(name: str) -> None:
    row, other = row_of(Declared, name), Lock(f"{name}:other")
    with other:
        save(row)
    assert 0 == fence_of(row)
    with Lock(f"soft:{row.pk}") as own, other:
        save(row)
        assert own.fencing_token == fence_of(row)
    strict = row_of(Strict, name)
    with other, pytest.raises(UnfencedWrite, match=f"take lock 'soft:{strict.pk}' around it, or"):
        save(strict)


def test_the_hold_of_another_thread_does_not_count(name: str) -> None:
    row = row_of(Strict, name)
    with Lock(f"soft:{row.pk}"), pytest.raises(UnfencedWrite):
        in_thread(save, row)
    by_hand = granted(Lock(f"soft:{row.pk}").acquire())
    with pytest.raises(UnfencedWrite):  # whose hold it is, only `with by_hand` says
        save(row)
    by_hand.release()

    @run_once(f"soft:{row.pk}")
    def job() -> None:
        save(row)

    with pytest.raises(UnfencedWrite):
        job()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("write", [*WRITES, lambda row: row.delete()])
def test_a_lost_hold_writes_nothing(model: Any, write: Any, name: str) -> None:
    row = row_of(model, name)

    @redis_lock(f"soft:{row.pk}")
    def work() -> None:
        lose_lock(f"soft:{row.pk}")
        write(row)

    with override_locks("granted"), pytest.raises(StaleHold):
        work()
    assert "new" == model.objects.get(pk=row.pk).state


@pytest.mark.parametrize("model", MODELS)
def test_generic_views_and_viewsets_are_fenced(model: Any, name: str) -> None:
    row = row_of(model, name)

    class S(serializers.ModelSerializer):
        class Meta:
            fields = ("state",)

    S.Meta.model = model  # type: ignore[attr-defined]

    class Api(RedisLockAPIMixin, viewsets.ModelViewSet):
        queryset = model.objects.all()
        serializer_class = S
        lock_name = "soft:{pk}"
        lock_actions = ("partial_update", "destroy")
        authentication_classes: ClassVar[Any] = []

    class Update(RedisLockMixin, UpdateView):
        fields = ("state",)
        lock_name = "soft:{pk}"
        success_url = "/"

    class Delete(RedisLockMixin, DeleteView):
        lock_name = "soft:{pk}"
        success_url = "/"

    patch = Api.as_view({"patch": "partial_update"})
    assert 200 == patch(APIRequestFactory().patch("/", {"state": "api"}), pk=row.pk).status_code
    first = fence_of(row)
    update = Update.as_view(model=model)
    post = RequestFactory().post("/", {"state": "form"})
    assert 302 == update(post, pk=row.pk).status_code
    assert first < fence_of(row)
    model.objects.filter(pk=row.pk).fenced(2**62).update()
    with pytest.raises(StaleHold):
        update(post, pk=row.pk)
    with pytest.raises(StaleHold):
        Delete.as_view(model=model)(RequestFactory().post("/"), pk=row.pk)
    with pytest.raises(StaleHold):
        Api.as_view({"delete": "destroy"})(APIRequestFactory().delete("/"), pk=row.pk)
    assert "form" == model.objects.get(pk=row.pk).state


@pytest.mark.parametrize("model", [*MODELS, Undeclared])
def test_row_locks_fence_without_a_declaration(model: Any, name: str) -> None:
    row = row_of(model, name)
    with lock_rows(row) as rows:
        save(row)
        assert rows.hold is not None
        assert rows.hold.fencing_token == fence_of(row)
    with transaction.atomic():
        save(model.objects.select_for_lock().get(pk=row.pk))
        second = fence_of(row)
    assert rows.hold.fencing_token < second
    with lock_model(model):
        save(row)
    assert second < fence_of(row)
    with transaction.atomic():
        locking = model.objects.filter(pk=row.pk).select_for_lock
        assert 1 == locking().update(state="updated")
        third = fence_of(row)
        assert 1 == locking().bulk_update([row], ["state"])
        assert (1, {model._meta.label: 1}) == locking().delete()
    assert second < third


def test_rows_of_several_holds_keep_the_fencing_token_of_their_own(name: str) -> None:
    first, second = (row_of(Undeclared, name + suffix) for suffix in "ab")
    with transaction.atomic():
        earlier = granted(lock_rows(first).acquire())
        locked = Undeclared.objects.select_for_lock()
        assert 2 == locked.update(state="done")
        first.save(hold=earlier.hold)  # its hold is no older than the row
    assert fence_of(first) < fence_of(second)


@pytest.mark.parametrize("model", [*MODELS, Undeclared])
def test_a_block_fences_by_hand(model: Any, name: str) -> None:
    row = row_of(model, name)
    with Lock(name) as hold, fenced(hold):
        for write in WRITES:
            write(row)
        rows = model.objects.filter(pk=row.pk)
        assert 1 == rows.update(state="x")
        assert 1 == rows.bulk_update([row], ["state"])
        new = model.objects.create()
        model.objects.bulk_create(
            [model(pk=row.pk, state="y")],
            update_conflicts=True,
            update_fields=["state"],
            unique_fields=["pk"],
        )
        assert hold.fencing_token == fence_of(row) == fence_of(new)
    rows.fenced(hold.fencing_token + 1).update()
    with fenced(hold.fencing_token):
        for write in (*WRITES, lambda row: row.delete(), lambda row: rows.update(state="late")):
            with pytest.raises(StaleHold):
                write(row)
    assert "y" == rows.get().state


def test_a_wrong_declaration_is_named() -> None:
    for wrong, why in (("order:{pk[0]}", "no indexing"), ("", "must not be empty")):
        with pytest.raises(ValueError, match=f"Bad.fenced_by must be a template .*{why}"):
            type("Bad", (FencedModel,), {"__module__": __name__, "fenced_by": wrong})
    with pytest.raises(TypeError, match="fenced_by must be a template"):
        type("Worse", (FencedModel,), {"__module__": __name__, "fenced_by": 5})

    class Missing(FencedModel):
        fenced_by = "order:{number}"

        class Meta:
            app_label = "ledger"
            abstract = True

    class Wrong(Missing):
        class Meta:
            app_label = "ledger"
            managed = False

    found = [each for each in Wrong.check() if each.id == "redis_locks.E017"]
    assert ["has {number}, and the model has no such attribute"] == [
        each.msg.partition("' ")[2].rstrip(".") for each in found
    ]
    assert not [each for each in Declared.check() if each.id == "redis_locks.E017"]


class DeclaredAdmin(FencedModelAdmin):
    actions = ("ship", "touch")
    lock_wait = 0

    def ship(self, request: HttpRequest, queryset: Any) -> None:
        queryset.update(state="shipped")

    def touch(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        for row in queryset:
            row.save()
        return HttpResponse(str(bool(inspection.lock(f"soft:{row.pk}"))))


site = AdminSite()
for _model in MODELS:
    site.register(_model, DeclaredAdmin)
urlpatterns = [path("admin/", site.urls)]


@pytest.mark.parametrize("model", MODELS)
def test_an_admin_action_is_fenced(model: Any, name: str) -> None:
    row = row_of(model, name)
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    url = f"/admin/ledger/{model.__name__.lower()}/"

    def run(action: str) -> Any:
        return browser.post(url, {"action": action, "_selected_action": row.pk})

    assert 302 == run("ship").status_code
    shipped = fence_of(row)
    assert "shipped" == model.objects.get(pk=row.pk).state
    assert b"True" == run("touch").content
    assert 0 < shipped < fence_of(row)
    with held(f"soft:{row.pk}"):
        assert 423 == run("ship").status_code
