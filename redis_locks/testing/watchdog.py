"""Run one server for a parent process and end it when the parent is gone.

Executed as a script, by path, with the standard library only. The parent keeps the write end of our
standard input. However it dies, the kernel closes that pipe. Then we stop the server and remove its
directory.

Protocol, one line each way: at start, and after ``restart``, we answer ``{"directory": ..., "pid":
...}``; after ``kill`` we answer ``{}`` once the server is reaped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_STOP_SECONDS = 3.0
# The usual temporary directory of macOS is too long for a socket's address.
_SHORT_TEMPORARY = "/tmp" if Path("/tmp").is_dir() else None  # noqa: S108


def _say(reply: dict[str, object]) -> None:
    # The parent is gone: the end of our input says so as well, and that is where we clean up.
    # Written at once: Python would try to write what is left in a buffer once more at its end, and
    # complain.
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), f"{json.dumps(reply)}\n".encode())


def _start(binary: str, directory: str, options: list[str]) -> subprocess.Popen[bytes]:
    fixed = "--port 0 --unixsocketperm 700 --appendonly no --daemonize no"
    # Paths as a whole: with another `--dir` among the options, the server works there.
    command = [binary, *fixed.split(), "--save", "", "--unixsocket", f"{directory}/s.sock"]
    command += ["--dir", directory, *options]
    with Path(directory, "server.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory
        )


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def main(binary: str, options: list[str]) -> None:
    """Serve until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Only the parent's end ends us; a signal meant for a whole process group would orphan the
        # server.
        signal.signal(number, signal.SIG_IGN)
    directory = tempfile.mkdtemp(prefix="rl-", dir=_SHORT_TEMPORARY)
    server: subprocess.Popen[bytes] | None = None
    try:
        server = _start(binary, directory, options)
        _say({"directory": directory, "pid": server.pid})
        for line in sys.stdin:
            server.kill()
            server.wait()
            if line.strip() == "restart":
                server = _start(binary, directory, options)
                _say({"directory": directory, "pid": server.pid})
            else:
                _say({})
    finally:
        if server is not None:
            _stop(server)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
