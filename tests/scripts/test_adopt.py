from __future__ import annotations

from redis_locks import scripts
from tests.scripts.bench import Bench

HEIR = "worker-1\t7\tthread MainThread\tcelery worker"


def adopted(
    bench: Bench,
    token: str,
    heir: str,
    lease: int = 60_000,
    names: tuple[str, ...] = (),
    fence: int = 0,
) -> list[str]:
    return bench.words(scripts.ADOPT, token, heir, lease, HEIR, fence, names=names)


def test_the_hold_gets_the_fencing_token_that_it_has_by_now(bench: Bench) -> None:
    fence = int(bench.acquire("a")[1])
    assert ["1", str(fence + 3)] == adopted(bench, "a", "b", fence=fence + 3)[::3]
    assert fence + 3 == bench.fence() == bench.last_fence()
    assert ["1", str(fence + 3)] == adopted(bench, "a", "b", fence=fence + 3)[::3]
    assert bench.release("b")
    assert int(bench.acquire("c")[1]) > fence + 3


def test_the_fencing_token_of_a_later_sharer_stays(bench: Bench) -> None:
    bench.acquire("a", mode="shared")
    bench.acquire("later", mode="shared")
    ahead = 9_000_000_000_000_000  # as another node's clock has it
    bench.words(scripts.FENCE, "later", 0, ahead)
    adopted(bench, "a", "b")
    assert bench.release("b")
    assert bench.release("later")
    assert int(bench.acquire("c")[1]) > ahead


def test_a_longer_lease_is_left(bench: Bench) -> None:
    bench.acquire("a", lease=60_000)
    adopted(bench, "a", "b", lease=100)
    assert bench.lease_left() > 50_000


def test_other_sharers_stay(bench: Bench) -> None:
    bench.acquire("a", mode="shared")
    bench.acquire("other", mode="shared")
    assert "1" == adopted(bench, "a", "b")[0]
    assert {"b", "other"} == set(bench.holders())


def test_a_set_is_adopted_whole_or_not_at_all(bench: Bench) -> None:
    names = ("x", "y")
    bench.acquire("a", names=names)
    assert "1" == adopted(bench, "a", "b", names=names)[0]
    assert [["b"], ["b"]] == [bench.holders(name) for name in names]
    assert ["0"] == adopted(bench, "b", "c", names=("x", "y", "z"))
    assert [["b"], ["b"], []] == [bench.holders(name) for name in ("x", "y", "z")]
    assert bench.release("b", names=names)
