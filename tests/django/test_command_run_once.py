"""`manage.py locks run --once`: a command that one of all who try does.

The command is a real process; we are one, too, where we are to be killed or told to end.
"""

from __future__ import annotations

import io
import signal
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command

from redis_locks import inspection, run_once
from redis_locks.run_once import RunStatus
from tests.django.command_line import Process
from tests.elsewhere import in_thread

SAYS_WHICH = "echo $REDIS_LOCKS_ATTEMPT of $REDIS_LOCKS_MAX_ATTEMPTS"
SLEEPS = ["--", "sh", "-c", "echo ready; sleep 60"]


def status(name: str, **terms: int) -> RunStatus:
    return run_once(name, **terms).status()  # type: ignore[arg-type]


Once = Callable[..., tuple[int, str, str]]


@pytest.fixture
def once(capfd: pytest.CaptureFixture[str]) -> Once:
    """Runs the command here, to its end; gives status, what the job printed, and what we say."""

    def run(name: str, *arguments: str) -> tuple[int, str, str]:
        code, err = 0, io.StringIO()
        try:
            call_command("locks", "--no-color", "run", name, "--once", *arguments, stderr=err)
        except SystemExit as ended:
            code = int(ended.code or 0)
        except CommandError as error:
            code = error.returncode
            err.write(str(error))
        return code, capfd.readouterr().out, err.getvalue()

    return run


def test_a_job_that_is_done_is_not_done_again(once: Once, name: str) -> None:
    command = [name, "--done-ttl", "60", "--", "sh", "-c", SAYS_WHICH]
    assert (0, "1 of 3\n", "") == once(*command)
    assert (0, "", "") == once(*command)
    assert ("done", 1) == (status(name).state, status(name).attempts)
    assert inspection.lock(name) is None


def test_a_failed_job_is_tried_again_until_no_attempt_is_left(once: Once, name: str) -> None:
    command = [name, "--max-attempts", "2", "--", "sh", "-c", f"{SAYS_WHICH}; exit 7"]
    assert (7, "1 of 2\n", "") == once(*command)
    assert "exit status 7" == status(name).last_error
    assert (7, "2 of 2\n", "") == once(*command)
    code, out, err = once(*command)
    assert (70, "") == (code, out)
    assert f"Job '{name}' has failed 2 times and is not tried again" in err
    assert "exit status 7" in err
    assert "exhausted" == status(name, max_attempts=2).state


def test_who_waits_takes_over_from_a_worker_that_died(once: Once, name: str) -> None:
    dead = in_thread(run_once(name, lease=0.5, renew=False).acquire)
    assert 1 == dead.number
    assert (0, "2 of 3\n", "") == once(name, "--wait", "30", "--", "sh", "-c", SAYS_WHICH)
    assert ("done", 2) == (status(name).state, status(name).attempts)


@pytest.mark.parametrize(("option", "expected"), [(["--wait", "0"], 75), (["--skip"], 0)])
def test_a_job_under_way_gives_75_or_is_skipped(
    once: Once, name: str, option: list[str], expected: int
) -> None:
    with run_once(name, label="the first worker"):
        code, out, err = once(name, *option, "--", "echo", "ran")
    assert (expected, "") == (code, out)
    assert ("the first worker" in err) == bool(expected)


def test_a_signal_reaches_the_job_which_then_has_failed(name: str) -> None:
    with Process("run", name, "--once", *SLEEPS) as process:
        process.line()
        process.send(signal.SIGTERM)
        assert 143 == process.end()[0]
    assert ("failed", "exit status 143") == (status(name).state, status(name).last_error)


def test_a_job_that_loses_its_lock_is_ended_and_another_takes_over(once: Once, name: str) -> None:
    with Process("run", name, "--once", *SLEEPS) as process:
        process.line()
        assert 1 == inspection.force_release(name).ended
        code, _, err = process.end()
    assert 79 == code
    assert "The lock was lost; ending sh." in err
    assert (0, "2 of 3\n", "") == once(name, "--", "sh", "-c", SAYS_WHICH)


def test_a_command_that_cannot_be_started_uses_up_an_attempt(once: Once, name: str) -> None:
    code, _, err = once(name, "--", "/nonexistent/command")
    assert 127 == code
    assert "Cannot run /nonexistent/command" in err
    assert ("failed", 1) == (status(name).state, status(name).attempts)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-attempts", "0"], "'0' is not a whole number above 0"),
        (["--done-ttl", "0"], "done_ttl must be between 0.01 seconds and one year"),
    ],
)
def test_wrong_usage_gives_64(once: Once, arguments: list[str], said: str) -> None:
    code, out, err = once("x", *arguments, "--", "true")
    assert (64, "") == (code, out)
    assert said in err


@pytest.mark.parametrize("option", ["--max-attempts", "--done-ttl"])
def test_what_is_for_jobs_only_is_refused_for_locks(name: str, option: str) -> None:
    with pytest.raises(CommandError, match=f"{option} is for a job: give --once as well") as found:
        call_command("locks", "run", name, option, "2", "--", "true")
    assert 64 == found.value.returncode
