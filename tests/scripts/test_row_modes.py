"""Row modes and intents, script by script."""

from __future__ import annotations

import pytest

from redis_locks.values import modes
from tests.scripts.bench import FOR_EVER, Bench
from tests.scripts.rows import AB, A, B, asked, lock, queue_up
from tests.scripts.test_detect import detect

ROW_MODES = ["key_share", "shared", "no_key", "exclusive"]
INTENTS = [f"intent:{mode}" for mode in ROW_MODES]


@pytest.mark.parametrize("held", [*ROW_MODES, *INTENTS, "permit:2"])
def test_the_scripts_table_is_that_of_python(bench: Bench, held: str) -> None:
    for wanted in (*ROW_MODES, *INTENTS, "permit:2"):
        names = (f"L:{wanted}",)
        assert "1" == bench.acquire("a", mode=held, names=names)[0]
        granted = bench.acquire("b", mode=wanted, names=names)[0] == "1"
        assert granted == (not modes.excludes(held, wanted))


def test_who_waits_for_a_row_keeps_nobody_from_another(bench: Bench) -> None:
    lock(bench, "a", A)
    heard = queue_up(bench, "w", A)
    assert [] == bench.queued("M")
    assert lock(bench, "b", B)
    bench.release("a", names=A)
    assert bench.heard(heard)
    assert {"w", "b"} == set(bench.holders("M"))


def test_rows_wait_for_their_model_and_then_go_on_together(bench: Bench) -> None:
    bench.acquire("m", names=["M"])
    heard = {
        token: queue_up(bench, token, names) for token, names in {"v": A, "w": A, "x": B}.items()
    }
    assert ["v", "w", "x"] == bench.queued("M")
    bench.release("m", names=["M"])
    # w waits for v's row now, which is not in the way of x.
    assert [True, False, True] == [bool(bench.heard(heard[token])) for token in "vwx"]
    assert [] == bench.queued("M")
    assert ["w"] == bench.queued("M:a")
    bench.release("v", names=A)
    assert bench.heard(heard["w"])


def test_a_model_that_is_waited_for_is_not_overtaken_by_rows(bench: Bench) -> None:
    lock(bench, "a", A)
    heard = bench.stand("m", names=["M"])
    assert not lock(bench, "b", B)
    later = queue_up(bench, "b", B)
    assert ["m", "b"] == bench.queued("M")
    bench.release("a", names=A)
    assert bench.heard(heard)
    assert ["m"] == bench.holders("M")
    bench.release("m", names=["M"])
    assert bench.heard(later)


def test_a_row_whose_turn_comes_while_the_model_is_taken_waits_for_the_model(bench: Bench) -> None:
    """It came before the model was asked for, so it did not stand in line there."""
    lock(bench, "a", A)
    heard = queue_up(bench, "w", A)
    bench.release("a", names=["M"])  # an operator ends the intent, and somebody takes the model
    assert "1" == bench.acquire("m", names=["M"])[0]
    bench.release("a", names=["M:a"])
    assert bench.heard(heard) is None
    assert ["w"] == bench.queued("M")
    bench.release("m", names=["M"])
    assert bench.heard(heard)
    assert ["w"] == bench.holders("M:a") == bench.holders("M")
    assert [] == bench.queued("M") + bench.queued("M:a")


def test_a_place_at_the_model_that_expired_is_found_again(bench: Bench) -> None:
    bench.acquire("m", names=["M"])
    heard = queue_up(bench, "w", A)
    bench.drop_line("M")
    bench.queue_up("w", mode=asked("exclusive"), names=A)
    assert ["w"] == bench.queued("M")
    bench.release("m", names=["M"])
    assert bench.heard(heard)


def test_a_place_at_the_model_that_expired_is_not_waited_for(bench: Bench) -> None:
    bench.acquire("m", names=["M"])
    queue_up(bench, "w", A)
    bench.drop_line("M")
    bench.release("m", names=["M"])
    assert "1" == bench.acquire("w", mode=asked("exclusive"), names=A, wait=FOR_EVER)[0]


def test_a_refusal_names_the_lock_and_the_holder_in_the_way(bench: Bench) -> None:
    lock(bench, "z", B, "exclusive")
    now = int(bench.acquire("s", mode=asked("key_share"), names=A, lease=5000)[2])
    bench.acquire("a", mode=asked("no_key"), names=A, lease=9000)
    _, _, ends, *claim = bench.acquire("b", mode=asked("shared"), names=AB)
    end, _, place = ends.partition("/")
    assert "2" == place
    assert now + 5000 < int(end)  # not the one that is not in the way
    assert "no_key" == claim[2]


def test_a_waiter_is_shown_with_what_it_wants_of_each_lock(bench: Bench) -> None:
    bench.acquire("m", names=["M"])
    queue_up(bench, "w", A, "no_key")
    shown = [bench.inspect(name)[4][1].split()[2] for name in A]
    assert [b"intent:no_key", b"no_key"] == shown


def test_a_circle_through_a_row_and_its_model_is_found(bench: Bench) -> None:
    """P has row a and wants the model m; Q has row b, and so the intent on M, and wants row a."""
    lock(bench, "P.1", A)
    lock(bench, "Q.1", B)
    queue_up(bench, "Q.2", A)
    assert "0" == detect(bench, "Q.2", A, mode=asked("exclusive"))
    bench.stand("P.2", ("M",))
    assert "1" == detect(bench, "P.2", ("M",))


def test_a_holder_that_leaves_room_is_in_nobodys_way(bench: Bench) -> None:
    """Q shares row a with R's key; P waits for both to be exclusive, R for P's row b."""
    lock(bench, "P.1", B)
    lock(bench, "Q.1", A, "no_key")
    lock(bench, "R.1", A, "key_share")
    queue_up(bench, "R.2", B)
    assert "0" == detect(bench, "R.2", B, mode=asked("exclusive"))
    queue_up(bench, "P.2", A, "no_key")
    assert "0" == detect(bench, "P.2", A, mode=asked("no_key"))
    bench.give_up("P.2", mode=asked("no_key"), names=A)
    bench.queue_up("P.2", mode=asked("exclusive"), names=A)
    assert "1" == detect(bench, "P.2", A, mode=asked("exclusive"))
