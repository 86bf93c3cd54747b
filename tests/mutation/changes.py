"""The small changes of a mutation run: of Python by its syntax tree, of Lua by its words."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

_PAIRS: Final = (
    *(("<=", "<"), (">=", ">"), ("and", "or"), ("+", "-")),
    *(("==", "!="), ("is not", "is"), ("not in", "in"), ("*", "/"), ("max", "min")),
)
_LUA_PAIRS: Final = (
    *_PAIRS[:4],
    *(("==", "~="), ("math.max", "math.min"), ("true", "false")),
)


def _both_ways(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(pairs) | {second: first for first, second in pairs}


SWAPPED: Final = _both_ways(_PAIRS)
"""What takes the place of an operator or a word of Python."""

LUA: Final = _both_ways(_LUA_PAIRS) | {"not ": ""}
"""The same of Lua."""

_LUA_WORDS = re.compile(
    r"(?m)^ +(?P<call>[\w.]+\([^\n]*\))$|<=|>=|==|~=|[<>+]|(?<= )-(?= )|\bnot |math\.(?:max|min)"
    r"|\b(?:and|or|true|false)\b|(?<=[ (])\d+\b"
)
_LUA_SILENT = re.compile(r'--[^\n]*|"[^"\n]*"')
_OPERATORS = re.compile(r"<=|>=|==|!=|is not|not in|[<>+*/-]|\b(?:is|in|and|or)\b")


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the text from `start` to `end` gives way to `text`."""

    path: Path
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """Return the changed source."""
        return source[: self.start] + self.text + source[self.end :]

    def diff(self, source: str) -> str:
        """Return the change as people read it."""
        before, after = source.splitlines(), self.apply(source).splitlines()
        return "\n".join(difflib.unified_diff(before, after, str(self.path), "", lineterm="", n=2))


def mutants_of(path: Path, source: str) -> list[Mutant]:
    """Return all changes of a file, in the order of its text."""
    found = _of_lua(source) if path.suffix == ".lua" else _Python(source).changes()
    return sorted(
        (Mutant(path, start, end, text) for start, end, text in found), key=lambda each: each.start
    )


Change = tuple[int, int, str]


def _of_lua(source: str) -> Iterator[Change]:
    code = _LUA_SILENT.sub(lambda silent: "_" * len(silent[0]), source)
    for match in _LUA_WORDS.finditer(code):
        word = match[0]
        if match["call"]:
            yield match.start("call"), match.end(), "do end"
        elif word.isdigit():
            yield match.start(), match.end(), str(int(word) + 1)
        else:
            yield match.start(), match.end(), LUA[word]


class _Python:
    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))

    def changes(self) -> Iterator[Change]:
        tree = ast.parse(self.source)
        annotations = {
            id(inner)
            for node in ast.walk(tree)
            for field in ("annotation", "returns")
            if isinstance(part := getattr(node, field, None), ast.AST)
            for inner in ast.walk(part)
        }
        for node in ast.walk(tree):
            if id(node) not in annotations:
                yield from self._of(node)

    def _of(self, node: ast.AST) -> Iterator[Change]:
        yield from self._of_operators(node)
        yield from self._of_statements(node)

    def _of_operators(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare():
                yield from self._between([node.left, *node.comparators])
            case ast.BoolOp():
                yield from self._between(node.values)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                yield from self._between([node.left, node.right])
            case ast.UnaryOp(op=ast.Not()):
                yield self._start(node), self._start(node) + len("not "), ""

    def _of_statements(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Call(func=ast.Name(id="min" | "max") as name):
                yield self._start(name), self._end(name), SWAPPED[name.id]
            case ast.Constant(value=bool() as value):
                yield self._start(node), self._end(node), str(not value)
            case ast.Constant(value=int() as value):
                yield self._start(node), self._end(node), str(value + 1)
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield self._start(node), self._end(node), "pass"
            case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test):
                yield self._start(test), self._start(test), "not "

    def _between(self, operands: list[ast.expr]) -> Iterator[Change]:
        for left, right in pairwise(operands):
            start = self._end(left)
            operator = _OPERATORS.search(self.source, start, self._start(right))
            if operator:
                yield operator.start(), operator.end(), SWAPPED[operator[0]]

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def _offset(self, line: int, column: int) -> int:
        start = self._lines[line - 1]
        # Columns count bytes.
        text = self.source[start : self._lines[line]].encode()[:column].decode()
        return start + len(text)
