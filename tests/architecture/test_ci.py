"""CI runs tests of every module for clusters: no mark leaves a whole module out unnoticed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "tests" / "cluster"


def marks_of_the_step_on_redis() -> str:
    found = re.search(r'-m "(.+)" "\${SERVER\[@\]}"', (ROOT / ".ci" / "run").read_text())
    assert found
    return found[1]


@pytest.mark.ci
def test_ci_runs_tests_of_every_module_for_clusters() -> None:
    collect = ["--collect-only", "-qq", "-n0", "-m", marks_of_the_step_on_redis(), str(CLUSTER)]
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", *collect],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    modules = {str(path.relative_to(ROOT)) for path in CLUSTER.rglob("test_*.py")}
    assert modules <= set(re.findall(r"^(\S+): \d+$", listed, re.MULTILINE))
