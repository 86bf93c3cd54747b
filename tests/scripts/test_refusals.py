"""What no script does: change what it cannot read, what it only shows, or what is foreign."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.scripts import Script
from tests.scripts.bench import FOR_EVER, WHO, Bench

FAR = 9_000_000_000_000_000

ACQUIRE = (60_000, "exclusive", WHO, "nobody")
COMMIT = (3, "SET", "never-written", "1")

OF_HOLDERS = {
    scripts.EXTEND: (60_000,),
    scripts.CONFIRM: (60_000,),
    scripts.FENCE: (60_000, FAR),
    scripts.ADOPT: ("heir", 60_000, WHO, 0),
    scripts.COMMIT: COMMIT,
    scripts.DOWNGRADE: (),
    scripts.RELEASE: (),
    scripts.CLOSE: ("closer", 1000, WHO),
}
"""What only a holder may do, with arguments."""

READERS = {scripts.INSPECT: (10, "first", 0, 0), scripts.NAMES: (0, 0, 10, 1), scripts.SURVEY: ()}

named = pytest.mark.parametrize(
    ("key", "script", "argv"),
    [
        *(
            (key, scripts.ACQUIRE, (*ACQUIRE, wait))
            for key in ("lock", "index")
            for wait in (0, FOR_EVER)
        ),
        *(
            (key, each, (120_000,))
            for key in ("lock", "index")
            for each in (scripts.EXTEND, scripts.CONFIRM)
        ),
        ("lock", scripts.RELEASE, ()),
        ("lock", scripts.GIVE_UP, ("exclusive",)),
        ("lock", scripts.FENCE, (1000, FAR)),
        ("lock", scripts.FORCE_RELEASE, ("a",)),
        ("lock", scripts.INSPECT, READERS[scripts.INSPECT]),
        ("index", scripts.NAMES, READERS[scripts.NAMES]),
    ],
    ids=lambda each: each.name if isinstance(each, Script) else None,
)


@named
def test_a_foreign_key_in_the_way_is_an_error_and_stays_untouched(
    bench: Bench, key: str, script: Script, argv: tuple[object, ...]
) -> None:
    if script is not scripts.ACQUIRE:
        bench.acquire("a")
    foreign = bench.put_foreign(key)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        bench.run(script, "a", *argv)
    assert bench.is_untouched(foreign)
    assert script is not scripts.ACQUIRE or {foreign} == bench.all_keys()


@pytest.mark.parametrize("script", READERS, ids=lambda script: script.name)
def test_what_only_reads_changes_nothing(bench: Bench, script: Script) -> None:
    for free in (True, False):
        before = bench.everything()
        bench.run(script, "me", *READERS[script])
        assert before == bench.everything()
        if free:
            bench.acquire("a")
            bench.queue_up("b")


@pytest.mark.parametrize("script", OF_HOLDERS, ids=lambda script: script.name)
def test_who_does_not_hold_is_refused_and_nothing_changes(bench: Bench, script: Script) -> None:
    assert ["0"] == bench.words(script, "a", *OF_HOLDERS[script])
    assert {} == bench.everything()
    bench.acquire("a", lease=30_000)
    bench.queue_up("waiter")
    before = bench.everything()
    for token in ("nobody", "waiter"):
        assert ["0"] == bench.words(script, token, *OF_HOLDERS[script])
        assert before == bench.everything()
