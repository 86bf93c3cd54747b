"""Run one PostgreSQL server for a parent process and end it when the parent is gone.

``python -I postgres_watchdog.py BINARIES USER`` (USER is empty for the current one), by path and
with the standard library only. The server listens on a unix socket in a private directory, whose
path is the only line we write. The end of our standard input ends the server.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

# Lost data do not matter here; time does.
OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
}
STOP_SECONDS = 10


def main(binaries: str, user: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    directory = tempfile.mkdtemp(prefix="pg-", dir="/tmp")
    as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
    if user:
        shutil.chown(directory, user)
    server = None
    try:
        data = f"{directory}/data"
        with Path(directory, "log").open("ab") as log:
            output = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": directory}
            initialise = [f"{binaries}/initdb", "-D", data, "-U", "postgres", "-A", "trust"]
            initialise += ["-E", "UTF8", "--locale=C", "--no-sync"]
            subprocess.run(initialise, check=True, **output, **as_user)  # type: ignore[call-overload]
            serve = [f"{binaries}/postgres", "-D", data, "-k", directory]
            for option in OPTIONS.items():
                serve += ["-c", "{}={}".format(*option)]
            server = subprocess.Popen(serve, **output, **as_user)  # type: ignore[call-overload]
        print(directory, flush=True)  # noqa: T201
        sys.stdin.read()
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # ends sessions and stops at once, cleanly
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
