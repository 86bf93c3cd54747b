"""The linter of our English can fail: it finds each kind of fault.

It finds none in code, links and tables.
"""

from __future__ import annotations

from .prose import faults


def test_what_is_hard_to_read_is_found() -> None:
    assert faults("word " * 26)
    assert not faults("word " * 25)
    assert faults("Whoever waits gets it.")
    assert not faults("Who holds it?")
    assert faults("You can obtain the lock.")
    assert not faults("`obtain()` is [redis-py's](https://example.org/unlock).")
    assert faults("- one item\n- that is simply wrong")
    assert not faults("| a cell | " + "another cell | " * 20)
    assert not faults("```\nunlock the watchdog\n```")
