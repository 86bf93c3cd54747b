"""`manage.py locks run`, with real processes and signals; with `--once`, one of all runs it."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from redis_locks import Lock, RunStatus, inspection, run_once
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_line import Process, Terminal, is_alive, locks
from tests.elsewhere import in_thread
from tests.support.children import Child, interpreter, run_python
from tests.support.world import existing, until

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a child of its parent's death"
)

# Says what it gets, and does not end before it is told to. The signals are blocked and taken one by
# one: a handler might have to wait for stdin, if the signal came just before that was read.
OBSTINATE = r"""
import os, signal, sys, threading
ends = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
numbers = {*ends, signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
threading.Thread(target=lambda: os._exit(int(sys.stdin.readline() or 1))).start()
os.write(1, b"ready %d\n" % os.getpid())
while True:
    got = signal.Signals(signal.sigwait(numbers))
    os.write(1, got.name.encode() + b"\n")
"""


SLEEPS = ["--", "sh", "-c", "echo ready; sleep 60"]


def python(program: str) -> list[str]:
    return ["--", sys.executable, "-I", "-S", "-c", program]


@contextmanager
def running(name: str, *options: str, program: list[str]) -> Iterator[Process]:
    """The command, whose program has said that it is ready."""
    with Process("run", name, *options, *program) as process:
        assert process.line().startswith("ready")
        yield process


def waiting(name: str) -> int:
    lock = inspection.lock(name)
    return lock.waiting if lock else 0


@pytest.mark.parametrize("status", [0, 7, 75])
def test_the_exit_status_is_the_command_s(name: str, status: int) -> None:
    assert (status, "", "") == locks("run", name, "--", "sh", "-c", f"exit {status}")
    assert inspection.lock(name) is None


def test_the_command_inherits_stdin_stdout_and_stderr(name: str) -> None:
    command = ["--", "sh", "-c", "cat; echo problem >&2"]
    assert (0, "some\ninput\n", "problem\n") == locks("run", name, *command, text="some\ninput\n")


def test_the_command_s_own_options_and_dashes_reach_it(name: str) -> None:
    out = locks("run", name, "--wait", "1", "--", "echo", "--wait", "2", "--", "--json", "-y")[1]
    assert "--wait 2 -- --json -y\n" == out


def test_the_lock_is_held_as_long_as_the_command_runs(name: str) -> None:
    with running(name, "--lease", "0.5", program=python(OBSTINATE)) as process:
        lock = existing(name)
        first = lock.holders[0]
        assert (process.pid, f"locks run: {Path(sys.executable).name}") == (first.pid, first.label)
        # Far longer than the lease, thanks to renewal.
        until(lambda: (found := inspection.lock(name)) and found.holders[0].held_for > 1)
        assert Lock(name).acquire(wait=0) is None
        assert 0 == process.end("0\n")[0]
    assert inspection.lock(name) is None


def test_the_command_finds_the_fencing_token(name: str) -> None:
    program = 'import os, sys; print(os.environ["REDIS_LOCKS_FENCING_TOKEN"], flush=True); input()'
    with Process("run", name, *python(program)) as process:
        fence = int(process.line())
        lock = existing(name)
        assert fence == lock.holders[0].fencing_token
        process.end("\n")


@pytest.mark.parametrize("wait", ["0", "0.1"])
def test_a_busy_lock_gives_75_and_names_the_holder(name: str, wait: str) -> None:
    with Lock(name, label="the nightly import"):
        status, out, err = locks("run", name, "--wait", wait, "--", "echo", "ran")
    assert (75, "") == (status, out)
    assert name in err
    assert "the nightly import" in err


def test_skip_leaves_a_busy_lock_s_command_out_in_silence(name: str) -> None:
    with Lock(name):
        assert (0, "", "") == locks("run", name, "--skip", "--", "echo", "ran")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on(name: str, number: signal.Signals) -> None:
    with running(name, program=python(OBSTINATE)) as process:
        process.send(number)
        assert number.name == process.line()
        assert inspection.lock(name)
        assert (5, "", "") == process.end("5\n")


def test_a_command_ended_by_sigterm_gives_143_and_frees_the_lock(name: str) -> None:
    with running(name, program=SLEEPS) as process:
        process.send(signal.SIGTERM)
        assert 143 == process.end()[0]
    assert inspection.lock(name) is None


def test_a_signal_while_waiting_ends_the_wait_and_leaves_the_queue(name: str) -> None:
    with Lock(name):
        with Process("run", name, "--wait", "60", "--", "echo", "ran") as process:
            until(lambda: waiting(name) == 1)
            process.send(signal.SIGTERM)
            assert (143, "", "") == process.end()
        assert 0 == waiting(name)


def test_a_command_that_ends_well_when_its_lock_is_lost_has_failed_all_the_same(name: str) -> None:
    program = OBSTINATE.replace("    os.write", "    os._exit(0)\n    os.write")
    with running(name, "--lease", "0.5", program=python(program)) as process:
        inspection.force_release(name)
        status, _, err = process.end()
    assert 79 == status
    assert f"Lock '{name}' was lost" in err


def test_a_command_that_does_not_want_to_end_is_killed_with_all_that_it_started(name: str) -> None:
    program = "trap '' TERM; sleep 60 & echo $!; while :; do wait; done"
    options = ["--lease", "0.5", "--grace", "0.3"]
    with Process("run", name, *options, "--", "sh", "-c", program) as process:
        grandchild = int(process.line())
        assert is_alive(grandchild)
        inspection.force_release(name)
        assert 79 == process.end()[0]
    until(lambda: not is_alive(grandchild))


def test_a_command_whose_parent_was_stopped_past_the_lease_is_ended(name: str) -> None:
    with running(name, "--lease", "0.5", program=SLEEPS) as process:
        process.send(signal.SIGSTOP)
        with Lock(name, wait=20, lease=60) as successor:
            process.send(signal.SIGCONT)
            assert 79 == process.end()[0]
            lock = existing(name)
            assert successor.token == lock.holders[0].token


def test_a_command_is_ended_when_the_server_is_gone_for_longer_than_the_lease(
    name: str, private_server: EmbeddedServer
) -> None:
    options = ["--lease", "0.5", "--using", private_server.url]
    with running(name, *options, program=SLEEPS) as process:
        private_server.kill()
        status, _, err = process.end()
    assert 79 == status
    assert "The lock was lost; ending sh." in err


def test_a_server_that_is_gone_at_the_end_does_not_change_the_status(
    name: str, private_server: EmbeddedServer
) -> None:
    options = ["--lease", "60", "--using", private_server.url]
    with running(name, *options, program=python(OBSTINATE)) as process:
        private_server.kill()
        status, _, err = process.end("3\n")
    assert 3 == status
    assert "does not answer" in err


def not_executable(folder: Path) -> str:
    path = folder / "data"
    path.touch(mode=0o644)
    return str(path)


@pytest.mark.parametrize(
    ("command", "status"), [(lambda _: "/nonexistent/command", 127), (not_executable, 126)]
)
def test_a_command_that_cannot_be_started_says_so_as_a_shell_does(
    name: str, tmp_path: Path, command: Callable[[Path], str], status: int
) -> None:
    path = command(tmp_path)
    found, _, err = locks("run", name, "--", path)
    assert status == found
    assert f"Cannot run {path}: " in err
    assert inspection.lock(name) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x"], "required: COMMAND"),
        (["x", "ls", "-l"], "NAME [options] -- COMMAND [ARGUMENT ...]"),
        (["x", "--lease", "0", "--", "true"], "lease must be between 0.01 seconds and one year"),
    ],
)
def test_wrong_usage_gives_64(arguments: list[str], said: str) -> None:
    status, out, err = locks("run", *arguments)
    assert (64, "") == (status, out)
    assert said in err
    assert "Traceback" not in err


def test_ctrl_c_on_a_terminal_reaches_the_command_once(name: str) -> None:
    with Terminal("run", name, *python(OBSTINATE)) as terminal:
        terminal.reply("ready", "\x03")
        terminal.until("SIGINT")
        terminal.send(signal.SIGTERM)  # passed on, unlike what the terminal sends to both
        terminal.reply("SIGTERM", "0\n")
        status, shown = terminal.end()
    assert 0 == status
    assert 1 == shown.count("SIGINT")


def test_a_wait_that_an_operator_cancels_gives_75(name: str) -> None:
    with Lock(name), Process("run", name, "--wait", "60", "--", "echo", "ran") as process:
        until(lambda: waiting(name))
        assert 0 == locks("cancel", name, "--yes")[0]
        code, out, err = process.end()
    assert (75, "") == (code, out)
    assert "cancelled by an operator" in err
    assert "Traceback" not in err


@on_linux
def test_a_command_does_not_outlive_us(name: str) -> None:
    with Process("run", name, "--", "sh", "-c", "echo $$; exec sleep 60") as process:
        command = int(process.line())
        process.send(signal.SIGKILL)
        until(lambda: not is_alive(command))


# Gets Ctrl-C from its terminal, as we do, before or after what it does before it becomes the
# command.
INTERRUPTED_AT_FIRST = r"""
import os, signal, sys
from redis_locks.management.locks import child
dies_with_us = child._dies_with_us
def interrupted(before):
    call = dies_with_us(before)
    def called():
        if sys.argv[1] == "before":
            os.kill(os.getpid(), signal.SIGINT)
        call()
        if sys.argv[1] == "after":
            os.kill(os.getpid(), signal.SIGINT)
    return called
child._dies_with_us = interrupted
signals = child.Signals()
with signals.caught():
    sys.exit(child.Child(["echo", "ran"], {}).wait(signals, lambda: True))
"""


@on_linux
@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_just_before_the_command_begins_is_not_lost(when: str) -> None:
    ended = run_python("-c", INTERRUPTED_AT_FIRST, when)
    assert (128 + signal.SIGINT, "") == (ended.returncode, ended.stdout)


# Says that it stands before or after what the child does before it becomes the command, and goes
# on when its parent is gone.
SLOW_TO_BEGIN = r"""
import os, sys, time
from redis_locks.management.locks import child
dies_with_us, us = child._dies_with_us, os.getpid()
def slowly(before):
    call = dies_with_us(before)
    def called():
        if sys.argv[1] == "after":
            call()
        os.write(1, b"there\n")
        while os.getppid() == us:
            time.sleep(0.005)
        if sys.argv[1] == "before":
            call()
    return called
child._dies_with_us = slowly
signals = child.Signals()
with signals.caught():
    child.Child(["echo", "ran"], {})
"""


@on_linux
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_command_does_not_begin_when_we_are_gone(when: str) -> None:
    with Child(interpreter("-c", SLOW_TO_BEGIN, when)) as process:
        assert "there" == process.line()
        process.kill()
        assert "" == process.line()  # until the child is gone as well


# `manage.py locks run --once`: a command that one of all who try does


SAYS_WHICH = "echo $REDIS_LOCKS_ATTEMPT of $REDIS_LOCKS_MAX_ATTEMPTS"


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
    with running(name, "--once", program=SLEEPS) as process:
        process.send(signal.SIGTERM)
        assert 143 == process.end()[0]
    assert ("failed", "exit status 143") == (status(name).state, status(name).last_error)


def test_a_job_that_loses_its_lock_is_ended_and_another_takes_over(once: Once, name: str) -> None:
    with running(name, "--once", program=SLEEPS) as process:
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
def test_wrong_usage_of_jobs_gives_64(once: Once, arguments: list[str], said: str) -> None:
    code, out, err = once("x", *arguments, "--", "true")
    assert (64, "") == (code, out)
    assert said in err


@pytest.mark.parametrize("option", ["--max-attempts", "--done-ttl"])
def test_what_is_for_jobs_only_is_refused_for_locks(name: str, option: str) -> None:
    with pytest.raises(CommandError, match=f"{option} is for a job: give --once as well") as found:
        call_command("locks", "run", name, option, "2", "--", "true")
    assert 64 == found.value.returncode
