"""What doctor finds, on real servers that have the fault, and that its fixes are fixes."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import override_settings

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.ports import free_ports
from tests.support import diagnosis
from tests.support.breakers import breaker_at, open_it, stopped
from tests.support.checks import SHARED_WITH_CACHE
from tests.support.diagnosis import Level, as_user, client, found, levels, running, server_checks
from tests.support.statistics import flush
from tests.support.world import until


def test_a_server_with_an_append_only_file_and_no_cache_is_all_right() -> None:
    with running("--appendonly", "yes") as server:
        assert {} == levels(server.url)
        findings = found(server.url).values()
        assert all(not finding.fix for finding in findings if finding.level is Level.OK)


def test_no_server_is_the_only_finding(name: str) -> None:
    socket = f"/nonexistent/{name}.sock"  # of which this process has not heard yet
    (finding,) = diagnosis.diagnose(using=f"unix://{socket}")
    assert (diagnosis.REACHABLE, Level.ERROR) == (finding.check, finding.level)
    assert "nonexistent" in finding.message


def test_wrong_credentials_are_told_from_an_absent_server(private_server: EmbeddedServer) -> None:
    as_user(private_server)
    wrong = private_server.url.replace("unix://", "unix://app:guess@")
    (finding,) = diagnosis.diagnose(using=wrong)
    assert "refused our credentials" in finding.message
    assert "guess" not in finding.message


def test_a_server_without_scripting_is_an_error_and_nothing_else_is_said() -> None:
    without = ("--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")
    with running(*without) as server:
        findings = found(server.url)
    assert ["server", "scripting"] == list(findings)
    assert Level.ERROR is findings["scripting"].level
    assert "runs no Lua scripts" in findings["scripting"].message
    assert "module" in findings["scripting"].fix


def test_a_policy_that_evicts_is_an_error() -> None:
    with running("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as server:
        finding = found(server.url)["eviction"]
        assert Level.ERROR is finding.level
        assert "allkeys-lru" in finding.message
        with server.client() as admin:
            admin.execute_command(*finding.fix.partition(",")[0].split())
        assert Level.OK is found(server.url)["eviction"].level


def test_a_policy_that_would_evict_is_a_warning_without_a_limit() -> None:
    with running("--maxmemory-policy", "allkeys-lru") as server:
        assert Level.WARNING is found(server.url)["eviction"].level


def test_memory_that_is_nearly_used_up_is_a_warning() -> None:
    with running("--maxmemory", "30mb") as server, server.client() as admin:
        while admin.info()["used_memory"] < 28_500_000:
            admin.rpush("big", b"x" * 500_000)
        assert "of maxmemory is used" in found(server.url)["eviction"].message


@pytest.mark.parametrize(
    "option", [("--replicaof", "127.0.0.1", "1"), ("--min-replicas-to-write", "1")]
)
def test_a_server_that_takes_no_writes_lacks_no_feature(option: tuple[str, ...]) -> None:
    with running(*option) as server:
        findings = found(server.url)
    assert Level.ERROR is findings["locking"].level
    assert Level.WARNING is findings["features"].level
    assert findings["features"].message.startswith("Not checked: ")


@pytest.mark.long
def test_replicas_want_min_replicas_to_write() -> None:
    (port,) = free_ports(1)
    with (
        running("--port", str(port), "--bind", "127.0.0.1") as primary,
        running("--replicaof", "127.0.0.1", str(port)),
        primary.client() as admin,
    ):
        until(lambda: "online" in str(admin.info("replication")))
        finding = found(primary.url)["replicas"]
        assert Level.WARNING is finding.level
        for command in re.findall(r"CONFIG SET [\w-]+ \d+", finding.fix):
            admin.execute_command(*command.split())
        assert Level.OK is found(primary.url)["replicas"].level
        for wanted, level in ((1, Level.OK), (2, Level.ERROR)):
            with override_settings(REDIS_LOCKS={"REPLICAS": wanted}):
                assert level is found(primary.url)["replicas"].level


def test_a_cache_in_the_same_database_is_a_warning(redis_server: EmbeddedServer) -> None:
    for using in (None, "default", redis_server.url):
        finding = found(using)["shared cache"]
        assert Level.WARNING is finding.level
        assert "caches['default'].clear()" in finding.message
    assert Level.OK is found(f"{redis_server.url}?db=1")["shared cache"].level


def test_a_shared_cache_is_no_warning_to_whoever_has_silenced_that(settings: Any) -> None:
    settings.SILENCED_SYSTEM_CHECKS = [SHARED_WITH_CACHE]
    finding = found(None)["shared cache"]
    assert Level.OK is finding.level
    assert "caches['default'].clear()" in finding.message


@pytest.mark.long
def test_a_cluster_without_slots_is_an_error_and_with_all_of_them_a_warning() -> None:
    port = str(*free_ports(1))
    with running("--cluster-enabled", "yes", "--port", port, "--bind", "127.0.0.1") as node:
        assert Level.ERROR is found(node.url)["cluster"].level
        with node.client() as admin:
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            until(lambda: admin.cluster("INFO")["cluster_state"] == "ok")
        assert Level.WARNING is found(node.url)["cluster"].level
        assert Level.OK is found(node.url)["locking"].level


def test_watching_sentinels_are_a_warning(private_server: EmbeddedServer) -> None:
    with private_server.client() as client, client.pubsub() as sentinel:
        sentinel.subscribe("__sentinel__:hello")
        sentinel.get_message(timeout=10)
        finding = found(private_server.url)["sentinel"]
    assert Level.WARNING is finding.level
    assert finding.message.startswith("1 Sentinels watch")


@pytest.mark.parametrize(
    ("hello", "level"),
    [
        ({"server": "redis", "version": "6.2.14"}, Level.ERROR),
        ({"server": "redis", "version": "10.1"}, Level.OK),
        ({"server": "valkey", "version": "9.1.2"}, Level.OK),
    ],
)
def test_old_servers_are_refused(hello: dict[str, str], level: Level) -> None:
    assert level is server_checks.version(SimpleNamespace(hello=hello)).level  # type: ignore[arg-type]


@pytest.mark.parametrize(("shift", "level"), [(0, "ok"), (100, "warning"), (-100, "warning")])
def test_a_wrong_clock_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, private_server: EmbeddedServer, shift: float, level: str
) -> None:
    real = client.time.time
    monkeypatch.setattr(client.time, "time", lambda: real() + shift)
    finding = found(private_server.url)["clock"]
    assert level == finding.level
    assert shift <= 0 or "100.0 s behind" in finding.message
    assert shift >= 0 or "100.0 s ahead of" in finding.message


@pytest.mark.parametrize(("took", "level"), [(0.001, "ok"), (0.02, "warning"), (2, "error")])
def test_a_slow_server_is_a_warning_and_one_too_slow_for_the_lease_an_error(
    monkeypatch: pytest.MonkeyPatch, private_server: EmbeddedServer, took: float, level: str
) -> None:
    samples = [client._Sample(took, 0.0)] * 3 + [client._Sample(60, 0.0)]
    monkeypatch.setattr(client, "_samples", lambda _: samples)
    assert level == found(private_server.url)["latency"].level


def test_a_server_that_dies_meanwhile_is_an_error(
    monkeypatch: pytest.MonkeyPatch, private_server: EmbeddedServer
) -> None:
    real = server_checks.role

    def dying(probe: object) -> object:
        private_server.kill()
        return real(probe)  # type: ignore[arg-type]

    monkeypatch.setitem(diagnosis.checks._CHECKS, "role", dying)
    findings = found(private_server.url)
    assert Level.ERROR is findings["eviction"].level
    assert "stopped to answer" in findings["eviction"].message
    assert "cannot be reached" in findings["locking"].message


def test_an_outage_is_told_while_it_lasts_and_for_an_hour(name: str) -> None:
    with (
        EmbeddedServer(use_environment=False) as server,
        override_settings(REDIS_LOCKS={"CONNECTION": f"{server.url}?socket_timeout=0.5"}),
    ):
        url = f"{server.url}?socket_timeout=0.5"
        lock = Lock(name, using=url)
        with stopped(server):
            open_it(lock, url)
            findings = found(url)
            assert ["server", "outages"] == list(findings)
            assert server.url in findings["outages"].message
            assert "Further ones fail at once." in findings["outages"].message
        until(lambda: not breaker_at(url).is_open)
        flush()
        hour = found(url)["outages"]
        assert Level.WARNING is hour.level
        assert "acquires of the last hour failed" in hour.message
