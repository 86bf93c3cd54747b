"""manage.py check: what it says of REDIS_LOCKS, names and views, without a server."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.core.checks import CheckMessage, run_checks
from django.core.checks import Warning as CheckWarning
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import modify_settings, override_settings
from django.urls import clear_url_caches, include, path, re_path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from redis.sentinel import Sentinel
from rest_framework.viewsets import ViewSet

from redis_locks import Lock, RedisLockMixin, Semaphore, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from tests.django.locked_views import hides, under
from tests.support.checks import check_lock_names, check_servers, check_settings, check_views
from tests.support.connections import resolve

pytestmark = pytest.mark.urls(__name__)


def called_too_early() -> redis.Redis:
    raise AssertionError("a check must not call it: it may connect")


def called_already() -> redis.Redis:
    return redis.Redis.from_url("redis://h/1")


class Special(redis.Redis):
    """Whose making may do anything."""

    def __init__(self, **options: Any) -> None:
        called_too_early()


of_a_service = functools.partial(Sentinel([("h", 26379)]).master_for, "service", db=1)
of_a_cluster = functools.partial(redis.RedisCluster, host="h")
special = functools.partial(Special.from_url, "redis://h/1")


def ids(value: object) -> list[str | None]:
    with override_settings(REDIS_LOCKS=value):
        found = check_settings()
    assert all(error.hint for error in found)
    return [error.id for error in found]


@pytest.mark.parametrize(
    "value",
    [
        {"CONNECTION": "unix:///nonexistent/nobody-listens.sock"},
        {"CONNECTION": f"{__name__}.called_too_early"},
    ],
)
def test_right_settings_pass_offline(value: object) -> None:
    assert ids(value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["default"], ["redis_locks.E001"]),
        ({"LEESE": 5}, ["redis_locks.E002"]),
        ({"LEASE": 0, "WAIT": -1}, ["redis_locks.E003", "redis_locks.E003"]),
        ({"CONNECTION": 5}, ["redis_locks.E003"]),
        ({"CONNECTION": "no.such.path"}, ["redis_locks.E004"]),
    ],
)
def test_each_fault_has_its_id(value: object, expected: list[str]) -> None:
    assert sorted(filter(None, ids(value))) == expected


PACKAGE = "django_redis.cache.RedisCache"
DJANGO = "django.core.cache.backends.redis.RedisCache"
MEMORY = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}


def cache(location: str, backend: str = PACKAGE, **options: object) -> dict[str, Any]:
    return {"BACKEND": backend, "LOCATION": location, "OPTIONS": options}


def warnings(connection: str, **configured: dict[str, Any]) -> list[CheckMessage]:
    with override_settings(
        CACHES={"default": MEMORY, **configured}, REDIS_LOCKS={"CONNECTION": connection}
    ):
        found = check_servers()
    assert all(isinstance(warning, CheckWarning) and warning.hint for warning in found)
    return found


@pytest.mark.parametrize("backend", [PACKAGE, DJANGO])
@pytest.mark.parametrize(
    ("connection", "location"),
    [
        ("default", "redis://h/1"),
        ("redis://h/1", "redis://:secret@h:6379/1"),
        ("redis://localhost", "redis://127.0.0.1/0"),
    ],
)
def test_a_cache_whose_clear_removes_the_locks_is_a_warning(
    connection: str, location: str, backend: str
) -> None:
    (warning,) = warnings(connection, default=cache(location, backend))
    assert "redis_locks.W006" == warning.id
    assert "caches['default'].clear() would remove all locks" in warning.msg
    assert "secret" not in str(warning)


SHARDS = "django_redis.client.ShardClient"


@pytest.mark.filterwarnings("ignore:.*ShardClient")
def test_a_cache_on_several_servers_clears_each_of_them() -> None:
    shards = cache(["redis://g/1", "redis://h/1"], CLIENT_CLASS=SHARDS)  # type: ignore[arg-type]
    for server in ("g", "h"):
        (warning,) = warnings(f"redis://{server}/1", shards=shards)
        assert "caches['shards'].clear() would remove all locks" in warning.msg
    assert [] == warnings("redis://h/2", shards=shards)


@pytest.mark.parametrize("name", ["of_a_service", "of_a_cluster", "special", "called_too_early"])
def test_nothing_is_said_of_a_server_that_only_other_callables_know(name: str) -> None:
    assert [] == warnings(f"{__name__}.{name}", one=cache("redis://h/1"))


def test_what_a_callable_gave_this_process_already_is_known() -> None:
    path = f"{__name__}.called_already"
    with override_settings(
        CACHES={"default": cache("redis://h/1")}, REDIS_LOCKS={"CONNECTION": path}
    ):
        assert [] == check_servers()
        resolve(path)
        assert ["redis_locks.W006"] == [each.id for each in check_servers()]


@pytest.mark.parametrize(
    ("connection", "location"),
    [
        ("redis://h/1", "redis://h/0"),
        ("redis://h/1", "redis://h:6380/1"),
        (f"{__name__}.called_too_early", "redis://h/0"),
        ("nowhere", "redis://h/0"),
    ],
)
def test_locks_with_a_database_of_their_own_are_fine(connection: str, location: str) -> None:
    assert [] == warnings(connection, own=cache("redis://h/7"), default=cache(location))


@pytest.mark.parametrize(
    "alias",
    [
        cache("redis://h/1", DJANGO, socket_timeout=None),
        # django-redis keeps one pool for each location.
        cache("redis://patient/1", CONNECTION_POOL_KWARGS={"socket_timeout": None}),
    ],
)
def test_a_client_that_waits_for_ever_is_a_warning(alias: dict[str, Any]) -> None:
    (warning,) = warnings("own", own=alias)
    assert "redis_locks.W007" == warning.id
    assert "socket_timeout" in str(warning.hint)


class Tunnel(redis.Connection):
    """Connections that go another way."""


def greet(connection: object) -> None:
    raise AssertionError(connection)


queue_pool = redis.BlockingConnectionPool(host="h", db=1)
tunnel_pool = redis.ConnectionPool(host="h", db=1, connection_class=Tunnel)
bounded = functools.partial(redis.Redis, "h", db=1, max_connections=9)
queueing = functools.partial(redis.Redis, connection_pool=queue_pool)
greeting = functools.partial(redis.Redis, "h", db=1, redis_connect_func=greet)
tunnelled = functools.partial(redis.Redis, connection_pool=tunnel_pool)
stapled = functools.partial(redis.Redis, "h", db=1, ssl=True, ssl_validate_ocsp_stapled=True)


@pytest.mark.parametrize(
    ("client", "id_", "word"),
    [
        ("bounded", "W012", "max_connections=9"),
        ("queueing", "W012", "max_connections=50"),
        ("greeting", "W012", "redis_connect_func"),
        ("tunnelled", "W013", "Tunnel has no async twin"),
        ("stapled", "W013", "ssl_validate_ocsp_stapled"),
    ],
)
def test_what_locks_do_not_heed_of_a_client_is_a_warning(client: str, id_: str, word: str) -> None:
    (warning,) = warnings(f"{__name__}.{client}")
    assert f"redis_locks.{id_}" == warning.id
    assert word in warning.msg


def test_replicas_of_a_cluster_are_an_error() -> None:
    for connection, found in (("redis+cluster://h", ["redis_locks.E009"]), ("redis://h/1", [])):
        with override_settings(REDIS_LOCKS={"CONNECTION": connection, "REPLICAS": 1}):
            assert found == [each.id for each in check_servers()]


def test_all_checks_are_part_of_manage_py_check() -> None:
    same = {"default": cache("redis://h/1", DJANGO, socket_timeout=None)}
    with override_settings(CACHES=same, REDIS_LOCKS={"CONNECTION": "default"}):
        found = [message.id for message in run_checks(tags=["redis_locks"])]
    assert {"redis_locks.W006", "redis_locks.W007"} <= set(found)


def test_a_deadline_without_its_middleware_is_a_warning() -> None:
    configured = {"REQUEST_DEADLINE": 5}
    assert ids(configured) == ["redis_locks.W008"]
    with modify_settings(MIDDLEWARE={"prepend": "redis_locks.middleware.request_deadline"}):
        assert ids(configured) == []


# manage.py check: which views cannot name their lock


urlpatterns: list[Any] = []


class Handling(View):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return HttpResponse()


class ByKey(RedisLockMixin, Handling):
    lock_name = "account:{pk}:{request.user.pk}"


class NamedByCode(ByKey):
    def get_lock_name(self) -> str:
        return "account"


class ReadOnly(RedisLockMixin, View):
    lock_name = "account:{pk}"

    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


class Handler(View):
    @method_decorator(redis_lock("account:{key}"))
    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        return HttpResponse()


def plain(request: HttpRequest, **kwargs: Any) -> HttpResponse:
    return HttpResponse()


by_pk = redis_lock("account:{pk}")
keywords = by_pk(plain)
of_class = under(by_pk, method="dispatch", base=Handling)


@redis_lock("account:{pk}")
def parameter(request: HttpRequest, pk: int = 1) -> HttpResponse:
    return HttpResponse()


class Accounts(RedisLockAPIMixin, ViewSet):
    lock_name = "account:{pk}"
    lock_methods = ("PUT",)

    def list(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    def update(self, request: HttpRequest, pk: int) -> HttpResponse:
        return HttpResponse()


def messages(*patterns: Any) -> list[str]:
    urlpatterns[:] = patterns
    clear_url_caches()
    found = check_lock_names()
    assert {"redis_locks.W014"} >= {message.id for message in found}
    return [message.msg for message in found]


@pytest.mark.parametrize(
    "view", [ByKey.as_view(), of_class, keywords, ByKey.as_view(lock_name="x:{pk}")]
)
def test_a_field_that_the_url_does_not_give_is_found(view: Any) -> None:
    (message,) = messages(path("accounts/<int:account_id>/", view))
    assert "'accounts/<int:account_id>/'" in message
    assert "{pk}, and the URL gives account_id" in message


@pytest.mark.parametrize(
    "view",
    [
        ByKey.as_view(),
        of_class,
        under([by_pk, never_cache], method="post", base=Handling),
        keywords,
    ],
)
def test_what_the_url_its_prefix_or_its_extra_arguments_give_is_fine(view: Any) -> None:
    assert [] == messages(
        path("a/<int:pk>/", view),
        re_path(r"^b/(?P<pk>\d+)/$", view),
        path("c/<int:pk>/", include([path("d/", view)])),
        path("e/", view, {"pk": 1}),
        path("f/", include([path("g/", view)]), {"pk": 1}),
    )


def test_a_handler_that_has_no_such_argument_is_found() -> None:
    (message,) = messages(path("<int:pk>/", Handler.as_view()))
    assert "{key} is not a parameter" in message


def test_what_takes_no_lock_or_names_it_otherwise_is_fine() -> None:
    assert [] == messages(
        path("a/", NamedByCode.as_view()),
        path("b/", ReadOnly.as_view()),
        path("c/", parameter),
        path("d/", Accounts.as_view({"get": "list"})),
        path("e/<int:pk>/", Accounts.as_view({"put": "update"})),
        path("f/", ByKey.as_view(lock_name="account")),
    )


def test_a_viewset_s_route_that_takes_the_lock_is_looked_at() -> None:
    view = Accounts.as_view({"put": "update", "post": "an action that it lacks"})
    (message,) = messages(path("", view))
    assert "{pk}, and the URL gives nothing" in message
    assert [] == messages(path("accounts/<int:pk>/", view))


# manage.py check: which views release a lock before COMMIT


def shows(view: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(view)(hides(view))


class Hides:
    def __init__(self, view: Callable[..., Any]) -> None:
        self.view = view

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.view(*args, **kwargs)


def by_hand(view: Callable[..., Any]) -> Callable[..., Any]:
    lock = Lock("by hand", scope="block")

    def inner(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return view(*args, **kwargs)

    return inner


class Mixed(RedisLockMixin, Handling):
    lock_name = "mixed"


class APISet(RedisLockAPIMixin, ViewSet):
    lock_name = "set"

    @method_decorator(redis_lock("action", scope="block"))
    def work(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


class Overrides(Mixed):
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(*args, **kwargs)


class APIOverrides(APISet):
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(*args, **kwargs)


async def coroutine(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


kept = redis_lock("kept")(plain)
block = redis_lock("block", scope="block")(plain)
kept_by_default = redis_lock("kept", database="default")(plain)
on_other = redis_lock("other", database="other")(plain)


def warnings_of(view: Any) -> list[CheckMessage]:
    urlpatterns[:] = [path("bank/", include(([path("pay/<int:pk>/", view)], "bank")))]
    clear_url_caches()
    return check_views()


def found(view: Any) -> list[str]:
    warnings = warnings_of(view)
    assert all(isinstance(warning, CheckWarning) and warning.hint for warning in warnings)
    assert all("redis_locks.W005" == warning.id for warning in warnings)
    return [warning.msg for warning in warnings]


@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize(
    ("view", "lock"),
    [
        (hides(block), "redis_lock('block')"),
        (Hides(block), "redis_lock('block')"),
        (hides(on_other), "redis_lock('other')"),
        (redis_lock("outer")(hides(block)), "redis_lock('block')"),
        (hides(Semaphore("permits", 3, scope="block")(plain)), "Semaphore('permits')"),
        (redis_lock("outer")(by_hand(plain)), "Lock('by hand')"),
        (
            under([hides, redis_lock("post", scope="block")], method="post", base=Handling),
            "redis_lock('post')",
        ),
        (APISet.as_view({"post": "work"}), "redis_lock('action')"),
        (hides(Mixed.as_view(lock_scope="block")), "the lock of Mixed"),
        (hides(Mixed.as_view(lock_database="other")), "the lock of Mixed"),
    ],
)
def test_a_lock_that_ends_before_commit_is_found(view: Any, lock: str) -> None:
    assert found(view) == [
        f"The view at 'bank/pay/<int:pk>/' releases {lock} before COMMIT on database 'default': "
        "the next holder may not see what was written."
    ]


@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize(
    "view",
    [
        on_other,
        shows(block),
        transaction.non_atomic_requests(hides(block)),
        Mixed.as_view(),
        under(redis_lock("dispatch", scope="block"), method="dispatch", base=Handling),
        under(redis_lock("dispatch", scope="block"), method="dispatch", base=Mixed),
        Mixed.as_view(lock_scope="transaction"),
        hides(redis_lock("coroutine")(coroutine)),
    ],
)
def test_a_lock_that_outlives_commit_is_not(view: Any) -> None:
    assert found(view) == []


def test_without_atomic_requests_hidden_locks_are_fine() -> None:
    assert found(hides(block)) == []


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (transaction.atomic(block), 1),
        (hides(transaction.atomic(using="other")(kept)), 0),
        (hides(transaction.atomic(using="other")(kept_by_default)), 1),
        (transaction.atomic(kept), 0),
        (redis_lock("above", scope="block")(transaction.atomic(plain)), 0),
    ],
)
def test_an_atomic_above_the_lock_counts_as_well(view: Any, expected: int) -> None:
    assert expected == len(found(view))


@pytest.mark.usefixtures("atomic_requests")
def test_a_lock_that_the_transaction_of_another_database_keeps_is_found() -> None:
    (message,) = found(redis_lock("kept", scope="transaction", database="other")(plain))
    assert "releases redis_lock('kept') before COMMIT on database 'default'" in message
    (message,) = found(redis_lock("outer", scope="transaction")(block))
    assert "releases redis_lock('block') before COMMIT" in message


@pytest.mark.usefixtures("atomic_requests")
def test_the_mixin_s_lock_is_kept_by_all_databases_or_by_the_one_that_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        connections.settings, "other", {**connections.settings["default"], "ATOMIC_REQUESTS": True}
    )
    assert found(Mixed.as_view()) == []
    assert found(hides(Mixed.as_view())) == []
    (message,) = found(hides(Mixed.as_view(lock_database="default")))
    assert "the lock of Mixed before COMMIT on database 'other'" in message


@pytest.mark.parametrize(
    "view",
    [
        Overrides.as_view(),
        under(hides, method="dispatch", base=Overrides),
        redis_lock("outer")(Overrides.as_view()),
        APIOverrides.as_view({"post": "create"}),
    ],
)
def test_a_dispatch_around_the_mixin_s_is_found(view: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [] == warnings_of(view)
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    (warning,) = warnings_of(view)
    assert "redis_locks.W015" == warning.id
    assert "has a dispatch() of its own around its lock" in warning.msg
    assert warning.hint


@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize(
    "view",
    [
        Mixed.as_view(),
        APISet.as_view({"post": "create"}),
        under(csrf_exempt, method="dispatch", base=Mixed),
        hides(Overrides.as_view()),
        Overrides.as_view(lock_scope="transaction"),
        transaction.non_atomic_requests(Overrides.as_view()),
    ],
)
def test_a_dispatch_in_the_transaction_or_of_others_is_not(view: Any) -> None:
    assert [] == warnings_of(view)


def test_a_project_without_urls_has_no_views_to_check() -> None:
    with override_settings(ROOT_URLCONF=None):
        assert check_views() == []
