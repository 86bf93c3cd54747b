"""What doctor finds of a user who lacks rights; the rule it gives is enough, and no more."""

from __future__ import annotations

import re

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.support import scripts
from tests.support.diagnosis import Finding, Level, as_user, found, levels, rights, running

pytestmark = pytest.mark.ci


def obey(server: EmbeddedServer, finding: Finding) -> None:
    """Run the command that is to fix it."""
    with server.client() as admin:
        admin.execute_command(*finding.fix.split())


def test_a_user_who_lacks_rights_gets_the_rule_that_gives_them() -> None:
    with running("--appendonly", "yes") as server:
        using = as_user(server, "+@all", "-publish", "-zadd", "~redis_locks{*", "&redis_locks:*")
        finding = found(using)["rights"]
        assert Level.ERROR is finding.level
        assert "User 'app' lacks the right to PUBLISH, ZADD with" in finding.message
        assert "error" == levels(using)["locking"]
        obey(server, finding)
        assert {} == levels(using)


def test_rights_that_only_some_parts_need_are_a_warning(private_server: EmbeddedServer) -> None:
    rules = ("+@all", "-watch", "~redis_locks{*", "&redis_locks:*")
    using = as_user(private_server, *rules)
    finding = found(using)["rights"]
    assert Level.WARNING is finding.level
    assert re.search(r"can use locks, but lacks rights for optimistic \(.*WATCH", finding.message)
    assert Level.OK is found(using)["locking"].level
    obey(private_server, finding)
    assert Level.OK is found(using)["rights"].level


@pytest.mark.parametrize("rules", [("+@all", "~*"), ("+@all", "&*")])
def test_missing_keys_and_channels_are_errors(
    private_server: EmbeddedServer, rules: tuple[str, ...]
) -> None:
    using = as_user(private_server, "resetchannels", *rules)
    finding = found(using)["rights"]
    assert Level.ERROR is finding.level
    obey(private_server, finding)
    assert Level.OK is found(using)["rights"].level
    assert Level.OK is found(using)["locking"].level


def test_every_command_of_the_scripts_is_checked() -> None:
    for script in scripts.ALL:
        arguments = [argument for argument, _ in rights._CALLED.findall(script.text)]
        assert script.text.count(b"call(") == len(arguments)
        # What a caller of commit hands over is the caller's own, and a function makes calls of its
        # own.
        ours = [each for each in arguments if each not in {b"unpack(ARGV", b"mark_late"}]
        assert all(rights._NAMED.search(argument) for argument in ours)
    assert {"GET", "SET", "PEXPIRETIME", "PUBLISH", "SUBSCRIBE", "EVALSHA"} <= set(
        rights.used_commands()
    )


def test_the_rule_gives_no_more_than_locks_need(private_server: EmbeddedServer) -> None:
    using = as_user(private_server)
    finding = found(using)["rights"]
    assert "may not run scripts" in finding.message
    obey(private_server, finding)
    findings = found(using)
    assert Level.OK is findings["rights"].level
    assert Level.OK is findings["locking"].level
    for check in ("eviction", "persistence", "replicas"):
        assert Level.WARNING is findings[check].level
        assert findings[check].message.startswith("Not checked: ")
    assert "Grant 'app' the right" in findings["eviction"].fix
