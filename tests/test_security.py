"""What SECURITY.md claims and no other test shows; and that the tests which it names are there."""

from __future__ import annotations

import ast
import re
import tracemalloc
from pathlib import Path
from typing import Any

import redis
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from redis_locks import Lock, inspection, redis_lock
from redis_locks.decorators.view_calls import MAX_LABEL
from redis_locks.drivers.server_link import pack_call
from redis_locks.scripts import COMMIT
from redis_locks.values.keys import set_keys
from tests.support.world import Threads

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "redis_locks").rglob("*.py"))
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "ctypes"}
ONE_SYSTEM_CALL = ROOT / "redis_locks" / "management" / "locks" / "child.py"
"""Here ctypes calls prctl(2) with two numbers: Python has no other way to it."""
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}


def test_every_test_that_the_review_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 20
    for path, test in named:
        assert f"def {test}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), (path, test)


def used_by(tree: ast.AST) -> set[str]:
    """The modules that are imported and the plain names that are called."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
    return found


def test_nothing_is_unpickled_or_run_as_code() -> None:
    assert len(SOURCES) > 50
    used = {path: used_by(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES}
    used[ONE_SYSTEM_CALL].remove("ctypes")
    assert [] == [path for path in SOURCES if used[path] & (UNSAFE_MODULES | UNSAFE_CALLS)]


def test_that_would_be_noticed() -> None:
    text = "import pickle.x\nfrom yaml import load\neval('1')\nclient.eval('1')"
    assert {"pickle", "yaml", "eval"} == used_by(ast.parse(text))


def test_a_name_that_was_used_costs_redis_little_and_not_for_ever(
    client: redis.Redis, name: str
) -> None:
    names = [f"{name}:{number}:{'x' * 100}" for number in range(50)]
    for each in names:
        with Lock(each, lease=1, renew=False):
            pass
    left = [key for key in client.keys("redis_locks*") if name.encode() in key]
    assert len(names) == len(left)
    for key in left:
        assert 0 < client.ttl(key) <= 3600 + 600 + 1
        assert client.memory_usage(key) < 600


def test_a_process_keeps_little_of_the_names_and_values_it_has_seen() -> None:
    """Neither of many long names, nor of large sets, nor of what is committed."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(4500):
        keys = set_keys("redis_locks", 0, (f"{number:06}{'n' * 500}",))
        pack_call(COMMIT, (keys, ("token", str(number), f"{number:06}{'v' * 200}")))
    for number in range(20):
        many = tuple(f"{number}:{each}:{'s' * 490}" for each in range(1000))
        value = str(number % 10) * (1_000_000 + number)
        pack_call(COMMIT, (set_keys("redis_locks", 0, many), ("token", value)))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000_000


def test_of_a_long_request_only_the_start_is_kept(rf: RequestFactory, name: str) -> None:
    seen: list[Any] = []

    @redis_lock(name)
    def view(request: HttpRequest) -> HttpResponse:
        seen.append(inspection.lock(name))
        return HttpResponse()

    view(rf.get(f"/{'a' * 50_000}"))
    assert MAX_LABEL == len(seen[0].holders[0].label)


def test_a_refused_client_learns_neither_the_lock_s_name_nor_its_holder(
    rf: RequestFactory, name: str
) -> None:
    @redis_lock(name, wait=0)
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    hold = Threads().start(Lock(name, label="somebody").acquire).result(20)
    assert hold is not None
    response = view(rf.post("/"))
    hold.release()
    assert 423 == response.status_code
    told = response.content.decode() + str(response.headers)
    assert name not in told
    assert "somebody" not in told
