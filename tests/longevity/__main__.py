"""Let 8 processes use locks for long, and say what grows: `python -m tests.longevity --help`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.longevity.world import PROCESSES, live


def main() -> int:
    """Run, print a line for each sample and a table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=60.0,
        help="how long (60); in less, pools of connections have not come to their size",
    )
    parser.add_argument(
        "--share", type=float, default=0.2, help="the part of a core for all processes (0.2)"
    )
    parser.add_argument("--every", type=float, default=20.0, help="seconds between samples (20)")
    options = parser.parse_args()
    started = time.monotonic()
    verdict = live(options.minutes * 60, share=options.share, every=options.every, say=_say)
    minutes = (time.monotonic() - started) / 60
    _say(f"\n{minutes:.0f} minutes, {PROCESSES} processes, {verdict.told['sections']:,} sections")
    _say(f"told: {dict(verdict.told)}\n")
    for label, trend in verdict.trends.items():
        _say(f"{label}: {trend}{'' if trend.is_flat else '   NOT FLAT'}")
    for failure in verdict.failures:
        _say(f"FAILED: {failure}")
    return 1 if verdict.failures else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
