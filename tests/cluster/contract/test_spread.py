"""Sets of locks of several partitions, on a cluster: their fixtures are for them alone."""

# ruff: noqa: F403 - pytest collects what is imported

from __future__ import annotations

import pytest

from tests.contract.test_spread import *

pytestmark = pytest.mark.ci
