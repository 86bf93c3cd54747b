"""Say what is wrong in our English and layout: `python -m tests.architecture.lint`.

Taste, which `nox -s lint` checks and no test: plain English (`prose`), the layout (`structure`).
Texts without a translation are told as a warning; `--translated`, which a release asks for, makes
them a fault.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from redis_locks.locks.hold import Hold
from redis_locks.locks.with_blocks import BlockExit
from redis_locks.protocol.lease import Lease

from . import internals, structure
from .prose import faults

ROOT: Final = Path(__file__).parents[2]
OUR_CODE: Final = (ROOT / "redis_locks", ROOT / "demo_project")
TAGS: Final = re.compile(r"{%\s*comment.*?endcomment\s*%}|{#.*?#}|{%.*?%}", re.DOTALL)
LABEL: Final = re.compile(r"{%\s*translate\s+([\"'])(.*?)\1.*?%}", re.DOTALL)
WORDS_OF_A_LABEL: Final = 4
MANY: Final = 100
"""So many are not listed."""


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def methods_of_hold() -> list[str]:
    names = {name: value for base in Hold.__mro__[:-1] for name, value in vars(base).items()}
    kinds = (property, classmethod, BlockExit)
    return [name for name, value in names.items() if callable(value) or isinstance(value, kinds)]


def fields_of_lease() -> list[str]:
    made = re.findall(r"self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(Lease.__init__))
    shared = [
        name
        for name, value in vars(Lease).items()
        if not (name.startswith("__") or callable(value))
        and not isinstance(value, (property, staticmethod))
    ]
    return sorted({*made, *shared})


LAYOUT: Final[dict[str, tuple[int, Callable[[], list[str]]]]] = {
    # what: how many there may be, which only falls; those that there are
    "modules at the top level": (12, structure.modules_at_the_top),
    "rooms": (35, structure.rooms),
    "floors": (12, structure.floors),
    "layers of the linter": (10, structure.layers),
    "imports that run back up": (0, structure.imports_back_up),
    "circles of files": (0, structure.circles),
    "tests of behaviour that know internals": (0, internals.known_to_tests_of_behaviour),
    "noqa of SLF001": (10, structure.private_accesses),
    "lines of Lua that are too long": (0, structure.long_lines_of_lua),
    "lines that say abandon for give up": (0, structure.replaced_words),
    "file names that occur twice": (0, structure.repeated_names),
    # `Lock`: users import ours and that of `compat`, which stands in for redis-py's.
    # The admin's is a model.
    "class names that occur twice": (1, structure.repeated_classes),
    "classes that share private state with a base in another file": (0, structure.spread_classes),
    "lines of ARCHITECTURE.md": (200, lambda: lines(ROOT / "ARCHITECTURE.md")),
    "lines of hold.py": (700, lambda: lines(ROOT / "redis_locks" / "locks" / "hold.py")),
    "methods of Hold": (45, methods_of_hold),
    "fields of Lease": (23, fields_of_lease),
}


def layout() -> Iterator[str]:
    """Yield a line for each figure of the layout that is over its limit."""
    for what, (limit, found) in LAYOUT.items():
        count = found()
        if len(count) > limit:
            where = f": {', '.join(count)}" if limit < MANY else ""
            yield f"{what}: {len(count)}, at most {limit}{where}"


def texts(path: Path) -> Iterator[str]:
    """Yield a module's docstrings, and its strings that are no names: messages, help, and so on.

    Texts after attributes count as well.
    """
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


def written() -> Iterator[tuple[Path, str]]:
    """Yield each page, text of our code and template, with its file."""
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        if "_build" not in path.parts:
            yield path, path.read_text(encoding="utf-8")
    for path in (path for folder in OUR_CODE for path in folder.rglob("*.py")):
        if "migrations" not in path.parts:
            yield from ((path, text) for text in texts(path))
    for path in (path for folder in OUR_CODE for path in folder.rglob("templates/**/*")):
        if path.is_file():
            text = LABEL.sub(r"\2", path.read_text(encoding="utf-8"))
            yield path, re.sub(r"{{.*?}}", "x", TAGS.sub("\n\n", text), flags=re.DOTALL)


def prose() -> list[str]:
    """Return a line for each sentence that is hard to read."""
    found = {f"{path.relative_to(ROOT)}: {f}" for path, text in written() for f in faults(text)}
    return sorted(found)


def untranslated() -> Iterator[str]:
    """Yield a line for each text that a catalog lacks, and for each that no source has any more."""
    import django

    django.setup()
    from .translations import LANGUAGES, names, texts, translated

    wanted = names(texts())
    for language in LANGUAGES:
        catalog = translated(language)
        blank = {
            key
            for message in catalog
            if not all([message.string] if isinstance(message.string, str) else message.string)
            for key in names([message])
        }
        for what, keys in (
            ("no translation", (wanted - names(catalog)) | blank),
            ("no such text in the sources", names(catalog) - wanted),
        ):
            yield from (f"{language}: {what}: {text}" for _, text in sorted(keys, key=str))


def main() -> int:
    wrong = [*layout(), *prose()]
    missing = list(untranslated())
    if "--translated" in sys.argv[1:]:
        wrong += missing
    else:
        sys.stdout.writelines(f"warning: {line}\n" for line in missing)
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
