"""Which of several Sentinels is believed, and what is said when none knows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from redis import exceptions as redis_errors

from redis_locks.drivers.sentinel import FailingOver, Sentinels, SentinelsSilent, UnknownService

A, B, C = ("a", 1), ("b", 2), ("c", 3)
PRIMARY = {
    "ip": "p",
    "port": 6379,
    "is_master": True,
    "is_sdown": False,
    "is_odown": False,
    "num-other-sentinels": 2,
}
DOWN = {**PRIMARY, "is_sdown": True}
SILENT = redis_errors.ConnectionError("refused")


class Asked:
    """Sentinels that answer what they are told to, in both worlds."""

    def __init__(self, answers: Mapping[tuple[str, int], Any], **options: Any) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []
        self.sentinels = Sentinels("bank", answers, {}, **options)
        self.sentinels._ask = self.sentinels._ask_in_loop = self._answer  # type: ignore[method-assign]

    async def _answer(self, address: tuple[str, int]) -> Mapping[str, Any]:
        self.asked.append(address[0])
        answer = self.answers[address]
        if isinstance(answer, Exception):
            raise answer
        services: Mapping[str, Any] = answer if "ip" not in answer else {"bank": answer}
        return services

    def found(self) -> tuple[str, int]:
        blocking = self.sentinels.get_master_address()
        assert blocking == asyncio.run(self.sentinels.in_loop.get_master_address())
        return blocking


def test_a_sentinel_that_does_not_answer_is_passed_over_and_asked_last_from_then_on() -> None:
    asked = Asked({A: SILENT, B: PRIMARY, C: PRIMARY})
    assert ("p", 6379) == asked.found()
    assert ["a", "b", "b"] == asked.asked


def test_a_sentinel_that_sees_the_primary_down_is_passed_over() -> None:
    assert ("p", 6379) == Asked({A: DOWN, B: {"shop": PRIMARY}, C: PRIMARY}).found()
    assert ("p", 6379) == Asked({A: {**PRIMARY, "is_master": False}, B: PRIMARY}).found()


def test_a_sentinel_that_sees_too_few_others_is_passed_over() -> None:
    alone = {**PRIMARY, "ip": "old", "num-other-sentinels": 0}
    assert ("old", 6379) == Asked({A: alone, B: PRIMARY}).found()
    assert ("p", 6379) == Asked({A: alone, B: PRIMARY}, least_others=1).found()


def test_another_host_may_stand_for_the_one_that_sentinels_name() -> None:
    assert ("nat", 6379) == Asked({A: PRIMARY}, forced_host="nat").found()


@pytest.mark.parametrize(
    ("answers", "error", "text"),
    [
        ([SILENT, SILENT], SentinelsSilent, "no Sentinel answers: refused"),
        ([SILENT, DOWN], FailingOver, "no working primary of 'bank'"),
        ([{}, DOWN], FailingOver, "no working primary of 'bank'"),
        ([SILENT, {"shop": PRIMARY}], UnknownService, "no service 'bank', but shop"),
        ([{}, {}], UnknownService, "but nothing"),
        (
            [SILENT, redis_errors.AuthenticationError("wrong password")],
            redis_errors.AuthenticationError,
            "a Sentinel says: wrong password",
        ),
    ],
)
def test_what_is_wrong_is_said(answers: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Asked(dict(zip([A, B], answers, strict=True))).found()
