"""The admin of a fenced model: it saves and deletes under the lock of the row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db.models.signals import pre_delete, pre_save
from django.test import Client
from django.urls import path

from redis_locks import Lock, inspection
from redis_locks.integrations.fenced_admin import FencedModelAdmin
from redis_locks.testing import held
from tests.ledger.models import Guarded

pytestmark = pytest.mark.urls(__name__)


class GuardedAdmin(FencedModelAdmin):
    fields = ("name", "number")
    list_display = ("name", "number")
    list_editable = ("number",)
    lock_name = "guarded:{pk}"
    lock_wait = 0


site = AdminSite()
site.register(Guarded, GuardedAdmin)
urlpatterns = [path("admin/", site.urls)]
LIST = "/admin/ledger/guarded/"


@pytest.fixture
def row(transactional_db: None, redis_server: Any) -> Guarded:
    row: Guarded = Guarded.objects.create(name="row")
    return row


@pytest.fixture
def locked_while_written(row: Guarded) -> Iterator[list[bool]]:
    """Whether the lock of the row was held, at each write."""
    seen: list[bool] = []

    def see(**_: Any) -> None:
        seen.append(bool(inspection.lock(f"guarded:{row.pk}")))

    for signal in (pre_save, pre_delete):
        signal.connect(see, sender=Guarded)
    yield seen
    for signal in (pre_save, pre_delete):
        signal.disconnect(see, sender=Guarded)


def change(client: Client, row: Guarded) -> Any:
    return client.post(f"{LIST}{row.pk}/change/", {"name": "row", "number": "5"})


def delete(client: Client, row: Guarded) -> Any:
    return client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"})


def delete_selected(client: Client, row: Guarded) -> Any:
    chosen = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
    return client.post(LIST, chosen)


def edit_in_list(client: Client, row: Guarded) -> Any:
    form = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "_save": "Save"}
    return client.post(LIST, {**form, "form-0-id": row.pk, "form-0-number": 5})


WRITES = [change, delete, delete_selected, edit_in_list]


@pytest.mark.parametrize("write", WRITES)
def test_the_admin_writes_under_the_lock_of_the_row(
    admin_client: Client, row: Guarded, locked_while_written: list[bool], write: Any
) -> None:
    assert 302 == write(admin_client, row).status_code
    assert locked_while_written
    assert all(locked_while_written)
    for left in Guarded.objects.all():
        assert 5 == left.number
        assert left.fence > 0
    assert not inspection.contended()
    with Lock(f"guarded:{row.pk}", wait=0):
        pass


@pytest.mark.parametrize("write", WRITES)
def test_a_row_that_somebody_else_holds_is_answered_with_423(
    admin_client: Client, row: Guarded, write: Any
) -> None:
    with held(f"guarded:{row.pk}"):
        response = write(admin_client, row)
    assert 423 == response.status_code
    assert "Retry-After" in response
    assert 0 == Guarded.objects.get().number


def test_a_row_of_the_list_that_changed_while_the_page_was_saved_is_left_alone(
    admin_client: Client, row: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Django has read the rows of the list before the admin takes their locks."""
    lock_name = GuardedAdmin.get_lock_name

    def write_before(self: GuardedAdmin, obj: Guarded) -> str:
        with Lock(f"guarded:{obj.pk}") as hold:
            Guarded.objects.fenced(hold).update(name="theirs")
        return lock_name(self, obj)

    monkeypatch.setattr(GuardedAdmin, "get_lock_name", write_before)
    answer = edit_in_list(admin_client, row)
    assert 302 == answer.status_code
    assert "nothing was saved" in admin_client.get(answer.headers["Location"]).content.decode()
    # The other write was in the page's transaction here, and so undone with it.
    assert 0 == Guarded.objects.get().number


def test_many_rows_are_deleted_under_their_locks(admin_client: Client, row: Guarded) -> None:
    other = Guarded.objects.create(name="other")
    for each in (row, other):
        with Lock(f"guarded:{each.pk}") as hold:
            each.save(hold=hold)
    chosen = {"action": "delete_selected", "_selected_action": [row.pk, other.pk], "post": "yes"}
    with held(f"guarded:{other.pk}"):
        assert 423 == admin_client.post(LIST, chosen).status_code
    assert 2 == Guarded.objects.count()
    assert 302 == admin_client.post(LIST, chosen).status_code
    assert not Guarded.objects.exists()


def test_who_may_not_change_the_row_takes_no_lock(row: Guarded) -> None:
    client = Client()
    client.force_login(User.objects.create_user("staff", is_staff=True))
    with held(f"guarded:{row.pk}"):
        assert 403 == change(client, row).status_code


def test_a_row_is_added_without_a_lock(admin_client: Client, row: Guarded) -> None:
    assert 302 == admin_client.post(f"{LIST}add/", {"name": "new", "number": 1}).status_code
    assert Guarded.objects.filter(name="new").exists()
