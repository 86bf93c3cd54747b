"""Rows "M:a", "M:b" and so on of one model "M", as the scripts see them."""

from __future__ import annotations

from tests.scripts.bench import Bench

A = ("M", "M:a")
B = ("M", "M:b")
AB = ("M", "M:a", "M:b")


def asked(mode: str, models: int = 1) -> str:
    return f"intent:{models}:{mode}"


def lock(bench: Bench, token: str, names: tuple[str, ...], mode: str = "exclusive") -> bool:
    return bench.acquire(token, mode=asked(mode), names=names)[0] == "1"


def queue_up(bench: Bench, token: str, names: tuple[str, ...], mode: str = "exclusive") -> object:
    return bench.stand(token, names, asked(mode))
