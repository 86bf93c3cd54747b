"""Statistics of real locks, from what happens to them to what is read."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from django.test import override_settings

from redis_locks import Lock, LockBackendError, LockLost, inspection, statistics
from redis_locks.statistics import LockStatistics
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import in_thread
from tests.signals.conftest import deadlocked
from tests.support.children import in_a_child
from tests.support.connections import backend_for
from tests.support.events import Teller, count_hold
from tests.support.keys import index_key
from tests.support.parties import held, waited_for
from tests.support.statistics import (
    BATCH,
    MOST_FIGURES,
    MOST_NOTES,
    Collector,
    LinkBroken,
    Note,
    Unsent,
    after_sending,
    before_sending,
    collector,
    flush,
    it_is,
    send_after,
    send_late,
)
from tests.support.world import until

ROOT = Path(__file__).parents[2]
DOWN = "unix:///nonexistent/server.sock"

pytestmark = pytest.mark.usefixtures("counted")


def figures(name: str = "a") -> LockStatistics:
    flush()
    (found,) = [lock for lock in statistics.read().locks if lock.name == name]
    return found


def kinds(name: str = "a") -> list[str]:
    flush()
    return [event.kind for event in statistics.events(name)]


def test_without_anything_to_count_there_are_no_figures() -> None:
    found = statistics.read()
    assert ((), None) == (found.locks, found.others)
    assert 60 == len(found.moments)
    assert not any(moment.acquired for moment in found.moments)
    assert [] == statistics.events("a")


def test_a_hold_is_counted_with_its_duration_and_no_wait() -> None:
    with Lock("a"):
        pass
    found = figures()
    assert (1, 0, 0, 0, 0) == (
        *(found.acquired, found.contended, found.timed_out),
        *(found.lost, found.deadlocks),
    )
    assert (0.0, 0.0) == (found.wait_p50, found.wait_p99)
    assert found.hold_p50 is not None
    assert 0 < found.hold_p50 == found.hold_p99 < 5
    assert 1 == statistics.read().moments[-1].acquired + statistics.read().moments[-2].acquired


def test_a_hold_in_async_code_is_counted() -> None:
    async def cycle() -> None:
        async with Lock("a"):
            pass

    asyncio.run(cycle())
    assert 1 == figures().acquired
    (event,) = asyncio.run(statistics.aevents("a"))
    assert ("acquired", True) == (event.kind, "task" in event.who)
    assert statistics.read().locks == asyncio.run(statistics.aread()).locks


def test_a_wait_in_vain_is_counted_as_contended_and_timed_out() -> None:
    with held("a") as hold:
        for wait in (0, 0.05):
            assert in_thread(Lock("a", wait=wait).acquire) is None
    found = figures()
    assert (1, 2, 1) == (found.acquired, found.contended, found.timed_out)
    assert found.wait_p99
    assert 0.04 < found.wait_p99 < 30
    assert ["timed_out", "contended", "contended", "acquired"] == kinds()
    last, *_, first = statistics.events("a")
    assert str(hold.fencing_token) == str(first.fencing_token)
    assert "pid" in last.detail


def test_a_wait_that_is_granted_tells_how_long_it_was() -> None:
    with held("a") as hold, waited_for("a"):
        hold.release()
        until(lambda: not inspection.names())
    found = figures()
    assert (2, 1) == (found.acquired, found.contended)
    assert 0.0 == found.wait_p50
    assert found.wait_p99


def test_a_wait_that_is_told_of_while_it_goes_on_counts_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"PREFIX": name, "DEADLOCK_TIMEOUT": 0.05}
    with override_settings(REDIS_LOCKS=settings), held("a") as hold, waited_for("a"):
        until(lambda: "has been waiting" in caplog.text)
        hold.release()
        until(lambda: not inspection.names())
        found = figures()
    assert (2, 1, 0) == (found.acquired, found.contended, found.timed_out)
    assert 0.0 == found.wait_p50, "one of two had to wait"
    assert found.wait_p99


def test_a_force_released_hold_is_noted_with_who_did_it_and_that_it_was_lost() -> None:
    with pytest.raises(LockLost), Lock("a", renew=False):
        inspection.force_release("a")
    assert 1 == figures().lost
    assert ["lost", "force_released", "acquired"] == kinds()
    lost, released, _ = statistics.events("a")
    assert "Redis does not know our hold any more" == lost.detail
    assert f"pid {os.getpid()}" in released.who


def test_a_cancelled_wait_is_noted() -> None:
    with held("a"), waited_for("a") as told:
        (waiter,) = inspection.parties().waiters
        inspection.cancel(waiter)
        until(lambda: told)
    assert "cancelled" in kinds()


def test_a_deadlock_is_counted_where_it_was_found(name: str) -> None:
    settings = {"PREFIX": name, "DEADLOCK_TIMEOUT": 0.1}
    with override_settings(REDIS_LOCKS=settings):
        deadlocked("x")
        flush()
        assert 1 == sum(lock.deadlocks for lock in statistics.read().locks)


def test_switched_off_nothing_is_counted_or_noted(name: str) -> None:
    with override_settings(REDIS_LOCKS={"PREFIX": name, "STATISTICS": False}), held("a"):
        inspection.force_release("a")
    flush()
    assert () == statistics.read().locks
    assert [] == statistics.events("a")


def test_the_most_contended_come_first_and_a_day_has_what_an_hour_has() -> None:
    with held("quiet"), held("busy"):
        in_thread(Lock("busy", wait=0).acquire)
    flush()
    hour, day = statistics.read("hour"), statistics.read("day")
    assert ["busy", "quiet"] == [lock.name for lock in hour.locks]
    assert hour.locks == day.locks
    assert (60, 96) == (len(hour.moments), len(day.moments))


def test_what_is_older_than_the_period_is_left_out(client: redis.Redis, name: str) -> None:
    stem = index_key(name, 0).removesuffix(b"index") + b"stats:60:"
    now = int(statistics.read().at) // 60
    for age in (1, 30, 58, 62):
        client.hincrby(stem + str(now - age).encode(), "a old", 1)
    found = statistics.read()
    assert [("old", 3)] == [(lock.name, lock.acquired) for lock in found.locks]
    assert 3 == sum(moment.acquired for moment in found.moments)
    assert all(
        later.at - earlier.at == 60
        for earlier, later in zip(found.moments, found.moments[1:], strict=False)
    )
    for key in client.scan_iter(stem + b"*"):
        client.delete(key)


def test_what_others_wrote_among_figures_and_notes_is_left_out(
    client: redis.Redis, name: str
) -> None:
    """So is what a later version adds to a note."""
    with Lock("a"):
        pass
    flush()
    stem = index_key(name, 0).removesuffix(b"index") + b"stats:"
    (later,) = client.lrange(stem + b"frequent:a", 0, 0)
    later = later.replace(b'"acquired",', b'"acquired","added":1,')
    odd = (b"", b"\xff", b"{}", b"1 {", b"1 []", b"1 {}", b'x {"kind":1}', b'1 {"kind":1}')
    client.lpush(stem + b"frequent:a", later, *odd)
    for bucket in client.scan_iter(stem + b"[0-9]*"):
        client.hset(bucket, mapping={b"a b": b"\xff", b"a c": b"1.5", b"hx a": 1, b"": b""})
    assert 1 == figures().acquired
    assert ["acquired", "acquired"] == kinds()
    client.rename(stem + b"frequent:a", stem + b"ended:a")
    assert ["acquired", "acquired"] == [hold.outcome for hold in statistics.holds("a")]


def test_a_name_may_have_spaces_and_control_characters() -> None:
    odd = "a b\nc \u202e"
    with Lock(odd):
        pass
    assert 1 == figures(odd).acquired
    assert ["acquired"] == kinds(odd)


def test_an_unknown_period_is_refused() -> None:
    with pytest.raises(ValueError, match="period must be 'hour' or 'day', not 'week'"):
        statistics.read("week")  # type: ignore[arg-type]


def test_a_server_that_is_down_is_named() -> None:
    with pytest.raises(LockBackendError, match="nonexistent"):
        statistics.read(using=DOWN)


def test_a_hold_that_an_outage_lost_is_counted_once_the_server_is_back(
    private_server: EmbeddedServer, name: str
) -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": private_server.url, "PREFIX": name}):
        hold = Lock("a", lease=0.3).acquire()
        assert hold is not None
        private_server.kill()
        until(lambda: hold.is_lost)
        with suppress(LockLost):
            hold.release()
        with pytest.raises(LockBackendError):
            Lock("a").acquire()
        for _ in range(3):
            flush()
        private_server.restart()
        found = figures()
        assert (1, 1, 1) == (found.acquired, found.lost, found.unavailable)
        assert 0 == found.wait_p99  # to wait for the server is no wait for the lock
        assert {"acquired", "lost"} == set(kinds())
        assert 1 == figures().lost
        assert not collector._unsent


def test_the_end_of_a_process_does_not_go_on_for_a_server_that_is_away(name: str) -> None:
    own = Collector()
    nowhere = backend_for(f"unix:///nonexistent/{name}.sock").driver.description
    own.pending.append(("timed_out", (nowhere, (name,)), None))
    own.catch_up()
    thread = own._thread
    assert thread is not None
    own.end()
    thread.join(3)
    assert not thread.is_alive()
    assert own._unsent  # it is lost with the process


def test_figures_whose_reply_was_lost_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Lock("a"):
        pass
    with monkeypatch.context() as patched:
        after_sending(patched, LinkBroken("the reply was lost"))
        flush()
    with Lock("a"):
        pass
    assert 2 == figures().acquired
    assert 2 == kinds().count("acquired")


def test_what_is_sent_late_is_shown_when_it_happened() -> None:
    send_late("a a", seconds=600)
    moments = statistics.read().moments
    assert 1 == sum(moment.acquired for moment in moments)
    assert 1 == sum(moment.acquired for moment in moments[48:51])
    assert 1 == sum(moment.acquired for moment in statistics.read("day").moments)


def test_a_server_that_never_comes_back_fails_nobody_and_takes_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unsent, names = Unsent(), [f"lock:{number}" for number in range(3 * MOST_FIGURES)]
    for step in range(2 * 24 * 60 * 2):  # two days, each half minute
        now = step * 30.0
        it_is(monkeypatch, now)
        name = names[step % len(names)]
        frequent = (name, "frequent", Note(now, "acquired", None))
        notable = (name, "notable", Note(now, "lost", None))
        unsent.add(
            {f"a {name}": 1, f"l {name}": 1}, [frequent, notable] if step % 50 else [frequent]
        )
    assert len(unsent.batches) <= 60 + 96 + 2
    assert all(len(batch.figures) <= MOST_FIGURES + 2 for batch in unsent.batches)
    assert sum(len(batch.notes) for batch in unsent.batches) <= MOST_NOTES
    counts = [sum(batch.figures.values()) for batch in unsent.batches]
    assert 2 * 24 * 60 * 2 - 60 <= sum(counts) <= 2 * 24 * 60 * 2
    ages = [now - batch.at for batch in unsent.batches]
    assert sorted(ages, reverse=True) == ages
    assert ages[0] <= 24 * 3600
    assert any(note.kind == "lost" for batch in unsent.batches for _, _, note in batch.notes)


def test_nobody_waits_while_statistics_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        sending.set()
        assert go_on.wait(30)

    with Lock("a"):
        pass
    before_sending(monkeypatch, wait)
    sender = threading.Thread(target=flush)
    sender.start()
    assert sending.wait(30)
    with Lock("a"):  # would hang
        pass
    go_on.set()
    sender.join()
    assert 2 == figures().acquired


def test_a_thread_sends_by_itself_and_ends_when_there_is_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send_after(monkeypatch, 0.01)
    own = Collector()
    server = backend_for(None).description
    for count in (1, 2):
        count_hold(Teller(own), "acquired", "a", server)
        until(lambda: own._thread is None)
        (found,) = statistics.read().locks
        assert ("a", count) == (found.name, found.acquired)


def test_much_is_counted_before_the_memory_fills() -> None:
    own = Collector()
    for _ in range(1000):
        count_hold(Teller(own), "acquired", "a", "nowhere")
    assert len(own.pending) < BATCH
    assert own._tallies["nowhere"].figures()["a a"] == 1000 - len(own.pending)


def test_a_child_does_not_send_what_its_parent_counted() -> None:
    with Lock("a"):
        pass

    def send() -> bool:
        empty = not collector._tallies and collector._thread is None
        flush()
        return empty

    assert "True" == in_a_child(send)
    assert 1 == figures().acquired


def test_the_end_of_a_process_sends_what_it_counted(
    redis_server: EmbeddedServer, name: str
) -> None:
    code = f"""
import django
from django.conf import settings
redis_locks = {{"CONNECTION": {redis_server.url!r}, "PREFIX": {name!r}}}
settings.configure(INSTALLED_APPS=["redis_locks"], REDIS_LOCKS=redis_locks)
django.setup()
from redis_locks import Lock
with Lock("a"): pass
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
    assert 1 == figures().acquired
