"""The gauges of a server: what a scrape has where the server cannot be asked, or not for all."""

from __future__ import annotations

import pytest

from redis_locks.diagnosis import server_checks
from redis_locks.drivers.base import Unreachable
from redis_locks.integrations.prometheus import ServerMetrics
from redis_locks.testing import override_locks
from redis_locks.testing.server import EmbeddedServer

WITHOUT_MEMORY = {
    "redis_locks_up": 1,
    "redis_locks_held": 0,
    "redis_locks_waiting": 0,
    "redis_locks_oldest_wait_seconds": 0,
    "redis_locks_longest_hold_seconds": 0,
}
DOWN = {"redis_locks_up": 0}


def scraped(using: str | None = None) -> dict[str, float]:
    gauges = ServerMetrics(using).collect()
    return {sample.name: sample.value for gauge in gauges for sample in gauge.samples}


def test_a_server_is_asked_for_its_memory() -> None:
    with EmbeddedServer(use_environment=False) as server:
        assert WITHOUT_MEMORY | {"redis_locks_memory_warning": 0} == scraped(server.url)
        with server.client() as admin:
            admin.config_set("maxmemory-policy", "allkeys-lru")
        assert 1 == scraped(server.url)["redis_locks_memory_warning"]


def test_a_user_who_may_not_ask_for_memory_has_the_other_figures() -> None:
    with EmbeddedServer(use_environment=False) as server:
        with server.client() as admin:
            admin.execute_command("ACL", "SETUSER", "default", "-info")
        assert WITHOUT_MEMORY == scraped(server.url)


def test_a_server_that_is_gone_is_down() -> None:
    with EmbeddedServer(use_environment=False) as server:
        url = server.url
    assert DOWN == scraped(url)


def test_a_cluster_whose_nodes_are_gone_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may go between the two looks of a scrape."""

    def gone(using: str | None) -> None:
        raise Unreachable("no node can be reached")

    with EmbeddedServer(use_environment=False) as server:
        monkeypatch.setattr(server_checks, "probes", gone)
        assert DOWN == scraped(server.url)


def test_where_no_server_is_asked_there_is_none_to_warn_of() -> None:
    with override_locks("granted"):
        assert WITHOUT_MEMORY == scraped()
    with override_locks("unavailable"):
        assert DOWN == scraped()
