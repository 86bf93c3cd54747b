"""Our English is plain: short sentences, named subjects, the words that the glossary fixes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .prose import faults

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "_build" not in path.parts
)


OUR_CODE = (ROOT / "redis_locks", ROOT / "demo_project")


TAGS = re.compile(r"{%\s*comment.*?endcomment\s*%}|{#.*?#}|{%.*?%}", re.DOTALL)
LABEL = re.compile(r"{%\s*translate\s+([\"'])(.*?)\1.*?%}", re.DOTALL)
WORDS_OF_A_LABEL = 4


def texts(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, and its strings that are no names: messages, help, text after attributes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = (getattr(value, "value", "x") for value in node.values)
            text = "".join(part if isinstance(part, str) else "x" for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = inspect.cleandoc(node.value)
        else:
            continue
        if len(text.split()) > WORDS_OF_A_LABEL and "redis.call" not in text and "ARGV" not in text:
            yield text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_plain(page: Path) -> None:
    assert not faults(page.read_text(encoding="utf-8"))


def test_docstrings_messages_and_help_are_plain() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {fault}"
        for folder in OUR_CODE
        for path in sorted(folder.rglob("*.py"))
        if "migrations" not in path.parts
        for text in texts(path)
        for fault in faults(text)
    }
    assert not found


def test_the_templates_are_plain() -> None:
    found = set()
    for path in sorted(path for folder in OUR_CODE for path in folder.rglob("templates/**/*")):
        if path.is_file():
            text = LABEL.sub(r"\2", path.read_text(encoding="utf-8"))
            text = re.sub(r"{{.*?}}", "x", TAGS.sub("\n\n", text), flags=re.DOTALL)
            found |= {f"{path.relative_to(ROOT)}: {fault}" for fault in faults(text)}
    assert not found


def test_what_is_hard_to_read_is_found() -> None:
    """The linter can fail: each kind of fault, and none in code, links and tables."""
    assert faults("word " * 26)
    assert not faults("word " * 25)
    assert faults("Whoever waits gets it.")
    assert not faults("Who holds it?")
    assert faults("You can obtain the lock.")
    assert not faults("`obtain()` is [redis-py's](https://example.org/unlock).")
    assert faults("- one item\n- that is simply wrong")
    assert not faults("| a cell | " + "another cell | " * 20)
    assert not faults("```\nunlock the watchdog\n```")
