"""The contract, word for word, on a cluster of three masters."""

# ruff: noqa: F403 - pytest collects what is imported

from __future__ import annotations

import pytest

from tests.contract.test_acquire import *
from tests.contract.test_busy_loops import *
from tests.contract.test_deadlock import *
from tests.contract.test_disturbance import *
from tests.contract.test_fencing import *
from tests.contract.test_held import *
from tests.contract.test_interruption import *
from tests.contract.test_lease import *
from tests.contract.test_lock_timeout import *
from tests.contract.test_modes import *
from tests.contract.test_names import *
from tests.contract.test_operators import *
from tests.contract.test_reentry import *
from tests.contract.test_release import *
from tests.contract.test_released_at_once import *
from tests.contract.test_revoked import *
from tests.contract.test_transit import *
from tests.contract.test_upgrade import *

pytestmark = pytest.mark.ci

# They count the commands of one server, read keys that are on another node, have processes or
# connections that know nothing of the cluster, or count on what the test before left open.
for _elsewhere in (
    "test_a_free_lock_is_acquired_in_one_round_trip_and_released_in_another",
    "test_the_holder_takes_it_again_at_once_and_without_a_round_trip",
    "test_a_holder_is_told_at_once",
    "test_in_transit_it_is_nobodys_and_no_part_of_a_deadlock",
    "test_a_waiter_that_dies_keeps_those_behind_it_from_sharing_for_a_moment_only",
    "test_reads_of_a_nested_hold_are_answered_now",
    "test_the_connection_may_come_from_a_callable_or_a_url_that_decodes",
):
    del globals()[_elsewhere]
