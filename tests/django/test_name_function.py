"""NAME_FUNCTION: its names beside acquires, what people type, and results that are no names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin import site
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import transaction
from django.http import Http404, HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.views import View

from redis_locks import Hold, Lock, LockLost, RedisLockMixin, inspection, redis_lock, run_once
from redis_locks.rows import lock_rows
from tests import tenants
from tests.contract.parties.ways import taken
from tests.ledger.models import Counter, Declared
from tests.support.admin import ServerPages, mark_of
from tests.support.checks import check_settings
from tests.support.configuration import problems
from tests.support.world import granted


@pytest.fixture(autouse=True)
def sharing(own_prefix: object) -> Iterator[None]:
    with tenants.sharing(), tenants.of("a"):
        yield


def test_a_release_after_the_tenant_has_changed_ends_the_same_lock(name: str) -> None:
    lock = Lock(name)
    hold = granted(lock.acquire())
    with tenants.of("b"):
        hold.extend(30)
        with lock as other:  # the same description, for whoever asks
            assert other.name == f"b|{name}"
        hold.release()
    assert inspection.names() == []


def test_a_hold_that_was_given_away_is_adopted_in_any_tenant(name: str) -> None:
    hold = taken(Lock(name).acquire())
    text = hold.detach()
    with tenants.of("b"), Hold.adopt(text) as adopted:
        assert adopted.name == f"a|{name}"


def test_a_name_that_is_given_means_the_tenants_and_one_of_a_listing_itself(name: str) -> None:
    hold = taken(Lock(name).acquire())
    with tenants.of("b"):
        assert inspection.lock(name) is None
        assert not inspection.force_release(name)
        (listed,) = inspection.locks()
        for known in (listed.name, listed.holders[0].lock, hold.name, *inspection.names()):
            assert inspection.lock(known) is not None
            assert [known] == [each.name for each in inspection.locks(names=[known])]
        with pytest.raises(LockLost, match=r"b\|"), Lock(name):
            assert inspection.force_release(name)
        assert inspection.lock(hold.name) is not None
        assert inspection.force_release(listed.name)
    with pytest.raises(LockLost, match=r"a\|"):
        hold.release()


def test_jobs_of_two_tenants_are_two_jobs(name: str) -> None:
    ran = []

    @run_once(name, store_result=True)
    def job() -> str:
        ran.append(tenants.tenant.get())
        return ran[-1]

    assert job() == job() == "a"
    with tenants.of("b"):
        assert run_once(name).status().state == "new"
        assert job() == job() == "b"
        assert run_once(name).status().state == "done"
    assert ran == ["a", "b"]


@pytest.mark.django_db(transaction=True)
def test_a_row_that_declares_its_lock_is_fenced_by_the_tenants() -> None:
    row = Declared.objects.create()
    with Lock(f"soft:{row.pk}") as hold:
        row.save()
        assert row.fence == hold.fencing_token
    with lock_rows(Counter.objects.all()) as rows:
        assert rows == []


@pytest.mark.django_db(transaction=True)
def test_a_transaction_keeps_one_hold_for_each_tenant(name: str) -> None:
    with transaction.atomic():
        with Lock(name) as first, Lock(name) as again:
            assert first.fencing_token == again.fencing_token
        with tenants.of("b"), Lock(name) as other:
            assert other.fencing_token != first.fencing_token
        assert inspection.names() == [f"a|{name}", f"b|{name}"]
    assert inspection.names() == []


def test_commands_take_the_name_of_a_listing_and_the_one_of_code(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hold = taken(Lock(name).acquire())
    for form in (name, f"a|{name}"):
        call_command("locks", "show", form)
        assert f"a|{name}" in capsys.readouterr().out
        call_command("locks", "list", form, "--json")
        assert [f"a|{name}"] == [row["name"] for row in json.loads(capsys.readouterr().out)]
    with tenants.of("b"):
        for verb in ("release", "cancel"):
            with pytest.raises(CommandError, match=rf"'{name}' or 'b\|{name}'"):
                call_command("locks", verb, name, "--yes")
        call_command("locks", "release", f"a|{name}", "--yes")
    with pytest.raises(LockLost):
        hold.release()


@pytest.mark.django_db
def test_the_admin_finds_both_forms_and_releases_the_one_that_it_shows(
    name: str, admin_client: Client
) -> None:
    hold = taken(Lock(name).acquire())
    (holder,) = inspection.locks()[0].holders
    listing = reverse("admin:redis_locks_lock_changelist")
    for form in (name, f"a|{name}"):
        assert f"a|{name}" in admin_client.get(listing, {"q": form}).content.decode()
    with tenants.of("b"):
        page = ServerPages(site).url("release", hold.name)
        sent = {"reason": "stuck", "party": mark_of(holder.token)}
        assert admin_client.post(page, sent).status_code == 302
    with pytest.raises(LockLost):
        hold.release()


@pytest.mark.parametrize("made", ["no_text", "nothing", "with_nul"])
def test_a_result_that_cannot_be_a_name_is_one_error_that_says_so(made: str, name: str) -> None:
    with tenants.sharing(f"{tenants.__name__}.{made}"):
        for ask in (
            Lock(name).acquire,
            Lock(name).hold().__enter__,
            run_once(name).status,
            lambda: inspection.lock(name),
        ):
            with pytest.raises(ImproperlyConfigured, match=r"NAME_FUNCTION.*returned"):
                ask()


def test_a_name_that_has_become_too_long_is_not_found_in_a_view(name: str) -> None:
    class Page(RedisLockMixin, View):
        lock_name = name

        def post(self, request: Any) -> HttpResponse:
            raise AssertionError

    @redis_lock(name)
    def page(request: Any) -> HttpResponse:
        raise AssertionError

    with tenants.sharing(f"{tenants.__name__}.too_long"):
        for view in (page, Page.as_view()):
            with pytest.raises(Http404, match="NAME_FUNCTION"):
                view(RequestFactory().post("/"))
        with pytest.raises(ValueError, match="hash the long part"):
            Lock(name).acquire()


@pytest.mark.django_db
def test_rows_need_their_model_at_the_end() -> None:
    Counter.objects.create(name="one")
    with (
        tenants.sharing(f"{tenants.__name__}.behind"),
        pytest.raises(ImproperlyConfigured, match="keep it at the end"),
        lock_rows(Counter.objects.all()),
    ):
        pass


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5, "must be a dotted path"),
        ("nowhere.name", "cannot be imported"),
        (f"{tenants.__name__}.PATH", "must name a plain function"),
        (f"{tenants.__name__}.takes_one", "is called as function"),
    ],
)
def test_a_path_that_names_no_such_function_is_found_by_check(value: object, said: str) -> None:
    (problem,) = problems({"NAME_FUNCTION": value})
    assert problem.id == "redis_locks.E003"
    assert said in problem.msg
    with tenants.sharing():
        assert check_settings() == []
