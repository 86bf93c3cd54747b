"""The rules for Prometheus and the dashboard for Grafana, with a real Prometheus and metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from redis_locks import DeadlockDetected, Lock, LockLost, inspection
from redis_locks.diagnosis import check_alerts
from redis_locks.integrations.prometheus import PrometheusMetrics, ServerMetrics
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import in_thread
from tests.ports import free_ports
from tests.signals.conftest import deadlocked
from tests.support.parties import held, waited_for
from tests.support.waiting import until

PROMETHEUS = shutil.which("prometheus")
FILES = Path(__file__).parents[2] / "docs" / "monitoring"
SCRAPED = """
global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: ["%s"]
scrape_configs: [{job_name: app, static_configs: [{targets: ["127.0.0.1:%d"]}]}]
"""

pytestmark = [
    pytest.mark.ci,
    pytest.mark.usefixtures("own_prefix"),
    pytest.mark.skipif(
        not PROMETHEUS, reason="no prometheus found (on Debian: apt install prometheus)"
    ),
]


class Server:
    """A Prometheus on a port of its own."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path: str, **query: str) -> Any:
        address = f"{self._url}{path}?{urlencode(query)}"
        with urlopen(address) as answer:  # noqa: S310 - the address is ours
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[float]:
        found = self.get("query", query=expression)["result"]
        return [float(each["value"][1]) for each in found]

    def rules(self) -> list[Any]:
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Server]:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    metrics.connect()
    registry.register(ServerMetrics())
    exporter, thread = start_http_server(0, "127.0.0.1", registry)
    config = tmp_path / "prometheus.yml"
    config.write_text(SCRAPED % (FILES / "alerts.yml", exporter.server_port))
    (port,) = free_ports(1)
    assert PROMETHEUS
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=log,
        )
    server = Server(port)
    try:
        until(lambda: answers(server))
        yield server
    finally:
        process.terminate()
        process.wait()
        metrics.disconnect()
        exporter.shutdown()
        exporter.server_close()
        thread.join()


def answers(server: Server) -> bool:
    with suppress(OSError):
        return bool(server.values("redis_locks_up"))
    return False


def trouble() -> None:
    """Have a hold lost, a deadlock, and waits in vain."""
    with suppress(LockLost), Lock("lost"):
        inspection.force_release("lost")
    with suppress(DeadlockDetected):
        deadlocked("a")
    with held("a"):
        in_thread(Lock("a", wait=0.01).acquire)


def test_every_rule_and_every_panel_has_figures(prometheus: Server) -> None:
    expressions = [rule["query"] for rule in prometheus.rules()]
    assert len(expressions) == 8
    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    for expression in expressions:
        # Without its bound: what does not fire has no value.
        asked = re.sub(r" (==|>=?) [0-9.]+", "", expression)
        asked = asked.replace("$__rate_interval", "1m").replace("$lock", ".*")

        def has_figures(asked: str = asked) -> bool:
            trouble()
            return bool(prometheus.values(asked))

        until(has_figures)


def test_both_ways_of_looking_tell_of_a_server_that_may_evict(
    prometheus: Server, redis_server: EmbeddedServer
) -> None:
    """The server rule of `check_alerts`, and that of Prometheus."""

    def told() -> list[str]:
        rules = [rule for rule in prometheus.rules() if rule["state"] == "firing"]
        return [rule["name"] for rule in rules if "Memory" in rule["name"]]

    def server_rule_fires() -> bool:
        return "server" in {event.alert.rule for event in check_alerts()}

    until(lambda: prometheus.values("redis_locks_memory_warning") == [0.0])
    assert not server_rule_fires()
    with redis_server.client() as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
        try:
            until(lambda: told() == ["RedisLocksServerMemory"])
            assert server_rule_fires()
        finally:
            admin.config_set("maxmemory-policy", "noeviction")
    until(lambda: not told())


def test_the_gauges_are_those_of_all_processes(prometheus: Server) -> None:
    with held("a"), waited_for("a"):
        until(lambda: prometheus.values("redis_locks_waiting") == [1.0])
        assert [1.0] == prometheus.values("redis_locks_held")
        until(lambda: prometheus.values("redis_locks_oldest_wait_seconds > 0"))
        until(lambda: prometheus.values("redis_locks_longest_hold_seconds > 0"))
    until(lambda: prometheus.values("redis_locks_held") == [0.0])
