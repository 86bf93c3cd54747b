"""Count how the package is laid out, from its text and from pyproject.toml.

`lint` and `test_budgets` run it.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import redis_locks

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "redis_locks"


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _tools() -> dict[str, Any]:
    """Return what pyproject.toml says of each tool."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)["tool"])


def modules_at_the_top() -> list[str]:
    """Return the modules that lie flat in the package, its own `__init__` included."""
    return sorted(path.name for path in PACKAGE.glob("*.py"))


def layers() -> list[str]:
    """Return the layers of the linter's contract."""
    contracts = _tools()["importlinter"]["contracts"]
    (found,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return list(found)


def long_lines_of_lua() -> list[str]:
    """Return the lines of scripts that are longer than ruff lets a line of Python be."""
    longest = _tools()["ruff"]["line-length"]
    return [
        f"{_named(path)}:{number}"
        for path in sorted(PACKAGE.rglob("*.lua"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > longest
    ]


def replaced_words() -> list[str]:
    """Return the lines of code that say "abandon", where the glossary has "give up"."""
    return [
        f"{_named(path)}:{number}"
        for path in sorted([*PACKAGE.rglob("*.lua"), *PACKAGE.rglob("*.py")])
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "abandon" in line.lower()
    ]


def private_accesses() -> list[str]:
    """Return the lines that excuse an access to another class's private member."""
    return [
        f"{_named(path)}:{number}"
        for path in _files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "noqa" in line and "SLF001" in line
    ]


def repeated_names() -> list[str]:
    """Return the file names that occur more than once.

    Django dictates two: `__init__.py`, and in `management/commands` a file is called as its
    command.
    """
    places = defaultdict(list)
    for path in _files():
        if path.name != "__init__.py" and path.parent.name != "commands":
            places[path.name].append(_named(path))
    return [
        f"{name}: {', '.join(places[name])}" for name in sorted(places) if len(places[name]) > 1
    ]


def repeated_classes() -> list[str]:
    """Return the names of classes that occur in more than one file. Django dictates `Meta`."""
    places = defaultdict(set)
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name != "Meta":
                places[node.name].add(_named(path))
    return [
        f"{name}: {', '.join(sorted(places[name]))}"
        for name in sorted(places)
        if len(places[name]) > 1
    ]


Graph = dict[str, set[str]]
"""What imports what."""


def rooms() -> list[str]:
    """Return the rooms of the house: the packages and modules that lie directly in the package."""
    return sorted(_room_graph())


def floors() -> list[str]:
    """Return the floors of the house, from the ground: each room is above all that it imports."""
    graph = _room_graph()
    heights = {room: _height(room, graph, ()) for room in graph}
    return [
        f"{floor}: {', '.join(sorted(room for room in graph if heights[room] == floor))}"
        for floor in range(1, max(heights.values()) + 1)
    ]


def imports_back_up() -> list[str]:
    """Return the imports between rooms that import each other, directly or through others."""
    graph = _room_graph()
    return [
        f"{room} -> {other}"
        for room in sorted(graph)
        for other in sorted(graph[room])
        if room in _reached(other, graph)
    ]


def circles() -> list[str]:
    """Return the groups of files that import each other, directly or through others."""
    graph = _file_graph()
    reached = {file: _reached(file, graph) for file in graph}
    found = {
        tuple(sorted(other for other in reached[file] if file in reached[other]))
        for file in graph
        if file in reached[file]
    }
    return [", ".join(circle) for circle in sorted(found)]


def _height(room: str, graph: Graph, above: tuple[str, ...]) -> int:
    below = graph[room].difference(above)  # else a circle would have no ground
    return 1 + max((_height(other, graph, (*above, room)) for other in below), default=0)


def _reached(start: str, graph: Graph) -> set[str]:
    """Return all that `start` imports, directly or through others."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def _room_graph() -> Graph:
    graph: Graph = {}
    for file, imported in _file_graph().items():
        room = _room(file)
        graph.setdefault(room, set()).update(
            other for each in imported if (other := _room(each)) != room
        )
    return graph


def _room(file: str) -> str:
    return file.partition("/")[0]


@cache
def _file_graph() -> Graph:
    """Return which file imports which others, inside functions and for types, too."""
    by_module = {_module(path): _named(path) for path in _files()}
    return {
        _named(path): {
            by_module[module]
            for module in _imported(ast.parse(path.read_text(encoding="utf-8")), set(by_module))
            if by_module[module] != _named(path)
        }
        for path in _files()
    }


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imported(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from modules.intersection(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield from modules.intersection(
                    [submodule if submodule in modules else str(node.module)]
                )


class _Class(NamedTuple):
    """A class as its file has it."""

    name: str
    file: str
    bases: list[tuple[str, str]]
    """The file and the name of each."""
    sets: set[str]
    """The private attributes that it gives to its objects."""
    uses: set[str]
    """The private attributes of `self` that its methods name."""


def spread_classes() -> list[str]:
    """Return the classes that share private state with a base class in another file.

    An attribute that begins with an underscore belongs to the file that sets it. Where one file of
    a class sets it and another one reads or sets it, the class is cut into slices. A public base,
    such as `Lock` of `redis_lock`, is a class of its own and may share with those derived from it.
    """
    classes = {(found.file, found.name): found for path in _files() for found in _classes(path)}
    return sorted(
        f"{found.file} {found.name} with {', '.join(sorted(shared))}"
        for found in classes.values()
        if (shared := set(_sharing(found, classes)))
    )


def _sharing(found: _Class, classes: dict[tuple[str, str], _Class]) -> Iterator[str]:
    for base in _ancestors(found, classes):
        shared = base.sets & found.uses or found.sets & base.uses
        if shared and base.file != found.file and base.name not in redis_locks.__all__:
            yield f"{base.file} {base.name}"


def _ancestors(found: _Class, classes: dict[tuple[str, str], _Class]) -> Iterator[_Class]:
    for place in found.bases:
        if place in classes:
            yield classes[place]
            yield from _ancestors(classes[place], classes)


def _classes(path: Path) -> Iterator[_Class]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    origins = dict(_imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = [_base_name(base) for base in node.bases]
            bases = [(origins.get(name, _named(path)), name) for name in names]
            sets = {attribute.attr for attribute in _of_self(node) if _is_stored(attribute)}
            uses = {attribute.attr for attribute in _of_self(node)}
            yield _Class(node.name, _named(path), bases, sets, uses)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a module imports, each with the file that it comes from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            package, _, inner = node.module.partition(".")
            ours = package == PACKAGE.name
            for alias in node.names:
                file = f"{inner.replace('.', '/')}.py" if ours else node.module
                yield alias.asname or alias.name, file


def _base_name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        base = base.value
    # A dotted name is another package's class, such as `redis.lock.Lock`.
    return ast.unparse(base)


def _of_self(node: ast.ClassDef) -> Iterator[ast.Attribute]:
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and part.value.id == "self"
            and part.attr.startswith("_")
            and not part.attr.startswith("__")
        ):
            yield part


def _is_stored(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.ctx, ast.Store)
