"""The calls that are kept packed are those that any other way of packing makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from redis_locks import express, scripts, store
from redis_locks.drivers.wire import pack_arguments, pack_call
from redis_locks.keys import MOST_KEPT, set_keys
from redis_locks.leases import Lease
from redis_locks.packed import _MOST_RESTS, _rests, kept, packed
from redis_locks.store import Request

NAMES = ("a", "b", "c", "d", "e")


def request(number: int) -> Request:
    keys = set_keys("prefix", 0, NAMES[:number])
    return Request(keys, "token.1", 10_000, "exclusive", "host\t1\tthread x")


@pytest.mark.parametrize("number", [1, MOST_KEPT - 1, MOST_KEPT, len(NAMES)])
@pytest.mark.parametrize("ready", [False, True])
def test_a_question_is_the_call_of_acquire(number: int, ready: bool) -> None:
    asked = request(number)
    if ready:
        asked = replace(asked, packed=packed(asked.keys))
    for token in ("token.1", f"token.{'1' * 99}"):
        again = replace(asked, token=token)
        call = store.acquire_call(again, "listener", 5000, first=True)
        assert pack_call(scripts.ACQUIRE, call) == store.question(
            again, token.encode(), "listener", 5000, 1
        )


def test_a_question_differs_in_each_argument() -> None:
    asked = request(1)
    questions = {
        store.question(asked, b"token.1", "listener", 5000, 1),
        store.question(asked, b"token.2", "listener", 5000, 1),
        store.question(asked, b"token.1", "listener+", 5000, 1),
        store.question(asked, b"token.1", "listener", 4000, 1),
        store.question(asked, b"token.1", "listener", 5000, 2),
        store.question(replace(asked, lease_ms=20_000), b"token.1", "listener", 5000, 1),
        store.question(replace(asked, mode="shared"), b"token.1", "listener", 5000, 1),
        store.question(replace(asked, who="host\t2\tthread x"), b"token.1", "listener", 5000, 1),
    }
    assert 8 == len(questions)


def test_a_request_made_from_one_with_other_keys_has_calls_of_its_own() -> None:
    one, two = request(1), request(2)
    other = replace(one, packed=packed(one.keys), keys=two.keys)
    asked, expected = (store.question(each, b"token.1", "a", 0, 1) for each in (other, two))
    assert asked == expected
    assert express._calls(Lease(other, 1.0, 1)).release(b"token.1") == packed(two.keys).release(
        b"token.1"
    )


@pytest.mark.parametrize("number", [1, len(NAMES)])
def test_a_release_is_the_call_of_release(number: int) -> None:
    keys = request(number).keys
    assert pack_call(scripts.RELEASE, (keys, ("token.1",))) == packed(keys).release(b"token.1")


@pytest.mark.parametrize("number", [1, len(NAMES)])
def test_a_commit_is_the_call_of_commit(number: int) -> None:
    ready = packed(request(number).keys)
    for commands in (
        [[b"SET", b"a", b"1"]],
        [[b"SET", b"a", b"x" * 300], [b"INCR", b""]],
        [[b"GETDEL", b"b", b"2"], [b"INCR", b"c"]],
        [],
    ):
        words = store.commit_words("token.1", commands)
        assert pack_call(scripts.COMMIT, (ready.keys, words)) == ready.commit(words)


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "argument",
    ["é", b"\x00", 7, -1, True, Name("a"), memoryview(b"abcd")[::2], bytearray(b"a"), ""],
)
def test_an_argument_of_any_type_is_packed(argument: Any) -> None:
    text = str(int(argument)) if isinstance(argument, int) else argument
    expected = text.encode() if isinstance(text, str) else bytes(text)
    size = str(len(expected)).encode()
    assert pack_arguments([argument]) == b"$" + size + b"\r\n" + expected + b"\r\n"


def test_the_keys_of_a_large_set_are_not_kept() -> None:
    few, many = request(1).keys, request(len(NAMES)).keys
    assert packed(few) is packed(few)
    assert packed(many) is not packed(many)
    assert kept(few) is packed(few)
    assert kept(many) is None


def test_the_locks_of_equal_keys_share_their_calls() -> None:
    assert packed(request(1).keys) is packed(tuple(bytes(key) for key in request(1).keys))


def test_arguments_are_kept_up_to_a_number() -> None:
    asked = request(1)
    first = store.question(asked, b"token.1", "listener", 0, 1)
    for wait_ms in range(_MOST_RESTS + 2):
        store.question(asked, b"token.1", "listener", wait_ms, 1)
    assert 0 < len(_rests) <= _MOST_RESTS
    assert first == store.question(asked, b"token.1", "listener", 0, 1)
