"""on_unavailable="proceed", and the server goes away during the block: the block's work stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import sleep
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from redis_locks import (
    Hold,
    Lock,
    LockBackendError,
    LockLost,
    Semaphore,
    inspection,
    redis_lock,
    run_once,
)
from redis_locks.rows import lock_rows
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import is_free
from tests.ledger.models import Counter
from tests.support.breakers import silent
from tests.support.outages import BRIEF, going_away, lines, proceeding
from tests.support.world import World, held, until


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with going_away() as found:
        yield found


def test_the_end_of_the_block_logs_once_and_does_not_raise(
    world: World, name: str, server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    worked = []

    def work(_: Hold) -> None:
        server.kill()
        worked.append(True)

    world.block(proceeding(server, name), work)
    assert worked
    (line,) = lines(caplog)
    assert name in line


def test_so_does_a_release_by_hand_and_doing_it_again_does_nothing(
    world: World, name: str, server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    hold = held(world, proceeding(server, name))
    server.kill()
    world.release(hold)
    world.release(hold)
    assert len(lines(caplog)) == 1


def test_the_lock_of_a_silent_server_is_released_when_it_answers_again(
    world: World, name: str, server: EmbeddedServer
) -> None:
    hold = held(world, proceeding(server, name, lease=60))
    with silent(server):
        world.release(hold)
    until(lambda: is_free(name, using=server.url))


@pytest.mark.parametrize("kind", [redis_lock, Semaphore])
def test_a_view_that_has_done_its_work_answers(
    kind: Callable[..., Any], name: str, server: EmbeddedServer
) -> None:
    permits = (2,) if kind is Semaphore else ()

    @kind(name, *permits, using=server.url, on_unavailable="proceed")
    def view(request: HttpRequest) -> HttpResponse:
        server.kill()
        return HttpResponse("done")

    request = HttpRequest()
    request.method = "POST"
    assert view(request).content == b"done"


def test_the_blocks_own_error_is_raised_as_it_is(
    world: World, name: str, server: EmbeddedServer
) -> None:
    def work(_: Hold) -> None:
        server.kill()
        raise KeyError(name)

    with pytest.raises(KeyError):
        world.block(proceeding(server, name), work)


def test_a_lease_that_ends_in_the_outage_ends_no_block(
    world: World, name: str, server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is a task cancelled."""
    worked = []

    def work(hold: Hold) -> None:
        server.kill()
        until(lambda: hold.is_lost)
        sleep(0.1)  # for who would end it
        worked.append(True)

    world.block(proceeding(server, name, lease=BRIEF), work)
    assert worked
    assert len(lines(caplog)) == 1


def test_without_proceed_all_of_this_raises(
    world: World, name: str, server: EmbeddedServer
) -> None:
    def work(_: Hold) -> None:
        server.kill()

    with pytest.raises(LockBackendError) as caught:
        world.block(Lock(name, using=server.url), work)
    assert caught.value.may_be_done


def test_what_an_operator_ends_is_lost_all_the_same(
    world: World, name: str, server: EmbeddedServer
) -> None:
    def work(_: Hold) -> None:
        inspection.force_release(name, using=server.url)

    with pytest.raises(LockLost):
        world.block(proceeding(server, name), work)


def test_row_locks_and_jobs_never_proceed(
    transactional_db: None, name: str, server: EmbeddedServer, settings: Any
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "ON_UNAVAILABLE": "proceed"}
    row = Counter.objects.create(name=name)
    rows, job = lock_rows(row, using=server.url), run_once(name, using=server.url, lease=1)
    with pytest.raises(LockBackendError), rows, pytest.raises(LockBackendError), job:
        server.kill()
