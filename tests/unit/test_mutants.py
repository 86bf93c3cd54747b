"""The changes of a mutation run: each is one that a test could notice."""

from __future__ import annotations

from pathlib import Path

from tests.mutation.changes import mutants_of

PYTHON = """\
def is_over(self, now: float = 0) -> bool:
    if self.ended and not now < max(self.é, 1):  # 1 < 2
        self.tell("a < b")
    return True
"""
LUA = """\
-- 1 < 2 and 3
local function over(name)
  if now >= 5 and not held(name) then
    tell("a < b and 1", name)
  end
end
"""


def changed(name: str, source: str) -> list[str]:
    """The lines that take the place of another, one of each mutant."""
    found = []
    for mutant in mutants_of(Path(name), source):
        pairs = zip(source.splitlines(), mutant.apply(source).splitlines(), strict=True)
        (line,) = [after for before, after in pairs if before != after]
        found.append(line.strip())
    return found


def test_python_is_changed_by_its_syntax() -> None:
    assert [
        "def is_over(self, now: float = 1) -> bool:",
        "if self.ended or not now < max(self.é, 1):  # 1 < 2",
        "if self.ended and now < max(self.é, 1):  # 1 < 2",
        "if self.ended and not now <= max(self.é, 1):  # 1 < 2",
        "if self.ended and not now < min(self.é, 1):  # 1 < 2",
        "if self.ended and not now < max(self.é, 2):  # 1 < 2",
        "pass",
        "return False",
    ] == changed("x.py", PYTHON)


def test_lua_is_changed_by_its_words_outside_of_texts_and_comments() -> None:
    assert [
        "if now > 5 and not held(name) then",
        "if now >= 6 and not held(name) then",
        "if now >= 5 or not held(name) then",
        "if now >= 5 and held(name) then",
        "do end",
    ] == changed("x.lua", LUA)


def test_a_survivor_is_shown_as_a_diff() -> None:
    source = "a = b < c\n"
    (mutant,) = mutants_of(Path("x.py"), source)
    assert ["-a = b < c", "+a = b <= c"] == mutant.diff(source).splitlines()[-2:]
