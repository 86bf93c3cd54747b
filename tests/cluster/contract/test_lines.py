"""Tasks cancelled and threads interrupted in a line of one process, on a cluster: their fixtures are for them alone."""

# ruff: noqa: F403 - pytest collects what is imported

from __future__ import annotations

import pytest

from tests.contract.lines.conftest import in_batches, no_lines_left, unhurried
from tests.contract.lines.test_broken_off import *

__all__ = ["in_batches", "no_lines_left", "unhurried"]

pytestmark = pytest.mark.ci

# It commits a key that is on another node.
_elsewhere = "test_a_commit_of_which_nobody_knows_whether_it_was_applied_does_not_pass_the_hold_on"
del globals()[_elsewhere]
