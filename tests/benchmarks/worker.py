"""One worker process: acquires and releases for some seconds and reports as JSON."""

from __future__ import annotations

import json
import sys
from time import monotonic, sleep

from tests.benchmarks.subjects import cycle


def main() -> None:
    """Run `subject url name start seconds` from the command line."""
    subject, url, name, start, seconds = sys.argv[1:]
    run = cycle(subject, url, name)
    run()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    # The monotonic clock is the same for all processes of a machine.
    begin = float(start) or float(sys.stdin.readline())
    sleep(max(0.0, begin - monotonic()))
    until = begin + float(seconds)
    waits: list[float] = []
    now = monotonic()
    while now < until:
        run()
        after = monotonic()
        waits.append(after - now)
        now = after
    waits.sort()
    report = {
        "count": len(waits),
        "p99": waits[int(len(waits) * 0.99)] if waits else float(seconds),
        "max": waits[-1] if waits else float(seconds),
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
