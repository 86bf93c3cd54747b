"""Workers are killed at random; each job is done at most once, and none is stuck."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from redis_locks import run_once
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import is_free
from tests.run_once.world import Records
from tests.support.children import run_python
from tests.support.world import PATIENCE, until

MANY = int(os.environ.get("REDIS_LOCKS_CHAOS_JOBS", "500"))
"""How many jobs the long form has."""

WORKERS = 8
FEW = 3
"""How many workers are killed in a short form that is to take a second or two."""

MOST = 5


@pytest.mark.verdict
@pytest.mark.slow
@pytest.mark.timeout(60 + MANY)
@pytest.mark.parametrize(
    ("mode", "jobs"),
    [
        ("blocking", 12),
        pytest.param("blocking", 60, marks=pytest.mark.ci),
        pytest.param("async", 12, marks=pytest.mark.ci),
        pytest.param("blocking", MANY, marks=pytest.mark.long),
        pytest.param("async", MANY, marks=pytest.mark.long),
    ],
)
def test_every_job_is_done_once_or_exhausted_after_exactly_its_attempts(
    redis_server: EmbeddedServer, records: Records, name: str, mode: str, jobs: int
) -> None:
    script = str(Path(__file__).with_name("chaos.py"))
    arguments = [redis_server.url, name, str(jobs), str(WORKERS), str(MOST), mode]
    # Not without end: on a slow machine no worker would live long enough to see that all is
    # settled.
    kills = FEW if (mode, jobs) == ("async", 12) else 2 * jobs
    ran = run_python("-W", "ignore", script, *arguments, str(kills), within=50 + jobs)
    assert 0 == ran.returncode, ran.stderr
    killed = int(ran.stdout)
    # A short form may be over before the last one.
    assert killed >= (1 if kills == FEW else min(WORKERS, jobs // 6))
    checked = [_check(records, name, number) for number in range(jobs)]
    assert {"done", "exhausted"} == {state for state, _ in checked}
    # Of a dozen jobs it may happen to none.
    assert jobs <= 12 or any(died for _, died in checked), (
        "no worker was killed while it was at a job"
    )
    records.client.delete(*(f"{name}:log:{number}" for number in range(jobs)))


def _check(records: Records, name: str, number: int) -> tuple[str, int]:
    """Hold what the workers noted about one job against its record.

    Returns its state and how many attempts came to no end that was noted.
    """
    job = f"{name}:{number}"
    log = [line.decode().split() for line in records.client.lrange(f"{name}:log:{number}", 0, -1)]
    begun = [int(attempt) for word, attempt, *_ in log if word == "begun"]
    fences = [int(fence) for word, _, *rest in log if word == "begun" for fence in rest]
    done = [int(attempt) for word, attempt in (line[:2] for line in log) if word == "done"]
    status = run_once(job, max_attempts=MOST).status()
    # A worker killed before it could take a note leaves a gap; nothing is there twice.
    assert sorted(set(begun)) == begun, log
    assert sorted(set(fences)) == fences, log
    assert status.attempts <= MOST, log
    assert all(attempt <= status.attempts for attempt in begun), log
    if status.state == "done":
        assert status.attempts == status.result, log
        assert done in ([], [status.result]), log
    else:
        assert "exhausted" == status.state, log
        assert MOST == status.attempts, log
        assert [] == done, log
    # A worker that was killed may have left its lease, or a place with nobody behind it, which
    # keeps nobody waiting.
    until(lambda: is_free(job), within=2 * PATIENCE)
    assert not records.left(job) - {"index"}
    return status.state, status.attempts - sum(word in ("done", "failed") for word, *_ in log)
