"""Tokens that prove a hold, and details that people read."""

from __future__ import annotations

import os
import re
import threading

import pytest

from redis_locks.drivers.endpoint import Endpoint
from redis_locks.protocol.callers import new_token, whoami
from redis_locks.values.claims import parse_who, write_who
from redis_locks.values.identity import written


def test_tokens_are_unique_across_threads() -> None:
    tokens: list[str] = []
    threads = [
        threading.Thread(target=lambda: tokens.extend(new_token() for _ in range(500)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 4000 == len(set(tokens))


def test_a_token_is_one_word_so_that_it_can_stand_in_a_message() -> None:
    assert re.fullmatch(r"[0-9A-Za-z]+\.[0-9a-f]+", new_token())


@pytest.mark.parametrize(
    "text", ["", "a\tb", '"], "', "\\", "\n\r\0", "ä 🔒", "\udc80", "\\t\\u0009"]
)
def test_who_asks_is_read_as_it_was_written_whatever_it_says(text: str) -> None:
    text_of = write_who(text, 7, text, text)
    assert (text, 7, text, text) == parse_who(text_of)
    assert text_of.isascii()
    assert 3 == text_of.count("\t")


@pytest.mark.parametrize(
    "text",
    [
        *("", "h\t7\tu", "h\tx\tu\tl", 'h\t7\tu\t"\\', "h\t7\tu\t\\"),
        *("h\t1e999\tu\tl", "h\t" + "7" * 5000 + "\tu\tl", 'h\t7\tu\t\\","' + "[" * 100_000),
        '{"host":"h","pid":7,"unit":"u","label":"l"}',  # as of earlier versions
    ],
)
def test_what_does_not_say_who_asks_is_nobody(text: str) -> None:
    assert parse_who(text) is None


def test_the_channel_for_scripts_stays_as_it_is_and_is_nothing_that_people_read() -> None:
    unit = f"thread {threading.current_thread().name}"
    who = written(os.getpid(), unit, "a\tb", 'lö"cks\\:holders:x')
    assert 'lö"cks\\:holders:x' == who.split("\t")[4]
    assert parse_who(whoami("a\tb")) == parse_who(who)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@example.test:6380/2", "redis://example.test:6380/2"),
        ("rediss://:secret@example.test", "rediss://example.test:6379/0"),
        ("unix:///run/redis.sock?db=4&password=secret", "unix:///run/redis.sock?db=4"),
        ("redis://example.test?password=secret", "redis://example.test:6379/0"),
    ],
)
def test_a_server_is_described_without_its_password(url: str, shown: str) -> None:
    endpoint = Endpoint.from_url(url)
    assert shown == endpoint.description
    assert "secret" not in endpoint.description
