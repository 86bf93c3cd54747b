"""`locks doctor` on servers that lack what locks ask of a server."""

from __future__ import annotations

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.support.diagnosis import Finding, Level, diagnose


def found(using: str) -> tuple[Finding, Finding]:
    """What the doctor says of the features, and of a lock that it takes."""
    by_check = {each.check: each for each in diagnose(using=using)}
    return by_check["features"], by_check["locking"]


def test_a_server_that_has_all_is_well(redis_server: EmbeddedServer) -> None:
    finding, _ = found(redis_server.url)
    assert Level.OK is finding.level, finding.message
    assert "all 4 features" in finding.message


@pytest.mark.parametrize(
    ("without", "level", "feature", "consequence"),
    [
        ("TIME", Level.ERROR, "TIME in scripts", "no lock can be acquired"),
        ("SUBSCRIBE", Level.ERROR, "RESP3 pushes", "no lock can be acquired"),
        ("PUBLISH", Level.ERROR, "the count of receivers", "waits until that asks again"),
        ("CLIENT", Level.WARNING, "CLIENT REPLY SKIP", "one more wake-up"),
    ],
)
def test_what_a_server_lacks_is_named_with_what_will_not_work(
    without: str, level: Level, feature: str, consequence: str
) -> None:
    options = ("--rename-command", without, "")
    with EmbeddedServer(options, use_environment=False) as server:
        finding, locking = found(server.url)
    assert level is finding.level
    assert f"The server lacks {feature}" in finding.message
    assert consequence in finding.message
    assert ("no lock" in consequence) == (Level.ERROR is locking.level), locking.message
    assert finding.fix
