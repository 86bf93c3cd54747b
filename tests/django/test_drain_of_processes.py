"""Drain, of hosts whose processes run, and of one whose process was killed."""

from __future__ import annotations

import pytest

from redis_locks import inspection
from redis_locks.testing.server import EmbeddedServer
from tests.django.hosts import parties
from tests.support.parties import held
from tests.support.world import until

pytestmark = [pytest.mark.usefixtures("own_prefix"), pytest.mark.ci]


def test_processes_of_a_host_learn_of_its_drain_and_those_of_others_go_on(
    name: str, redis_server: EmbeddedServer
) -> None:
    with held("wanted"), parties(redis_server.url, name) as start:
        running, killed, other = start("web-2"), start("web-2"), start("web-3")
        killed.kill()
        until(lambda: 3 == len(inspection.waiters()))
        planned = inspection.drain(host="web-2", dry_run=True)
        assert (4, 2) == (len(planned.holders), len(planned.waiters))
        assert running.is_silent()

        ended = inspection.drain(host="web-2")

        assert {holder.token for holder in planned.holders} == {
            holder.token for holder in ended.holders
        }
        told = {running.hear() for _ in range(3)}
        assert {("thread", "lost"), ("task", "cancelled")} < told
        ((_, why),) = (words for words in told if words[0] == "wait")
        assert "cancelled by an operator" in why
        # Of the killed process nothing is left, either, although its leases have not ended.
        assert ["wanted", *(["web-3"] * 2)] == [n.partition(":")[0] for n in inspection.names()]
        assert ["web-3"] == [waiter.host for waiter in inspection.waiters()]
        assert other.is_silent()
