"""Forks the workers of a `WorkerPool` from one process that has loaded all they need.

As prefork servers do, for the same two reasons. Ten workers start in the time of one, and share the
memory of their code. ``python -m demo_project.benchmark.fork_server MODULE INPUT OUTPUT …`` gives
each worker two of the file descriptors that it inherited as standard input and output, and ends
when all of them have.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module

import django
from django.db import connections


def main(module: str, *ends: int) -> None:
    """Run ``main()`` of `module` in a process for each two of `ends`; block until all end."""
    django.setup()
    worker = import_module(module)
    # What a project does at its start must not be said by each of them, or be shared.
    sys.stdout.flush()
    connections.close_all()
    # Threads that it has started are not in the workers, which is as well.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    for pair in pairs:
        if os.fork() == 0:
            for standard, end in enumerate(pair):
                os.dup2(end, standard)
            _close(ends)
            worker.main()
            return
    _close(ends)  # so that each is closed as soon as its worker has ended
    for _ in pairs:
        os.wait()


def _close(ends: tuple[int, ...]) -> None:
    for end in ends:
        os.close(end)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
