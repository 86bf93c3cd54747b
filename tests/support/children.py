"""What a process does that a test starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def in_a_child(work: Callable[[], object]) -> str:
    """Fork, do `work` in the child, and return its result as text, or the name of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as error:  # noqa: BLE001 - said by name
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def run_script(
    code: str, *arguments: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, by a Python with these options and the tests' settings."""
    return subprocess.run(
        [sys.executable, *options, "-c", code, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
