"""Checks the types of README's and the docs' examples: ``python -m tests.typing.examples``.

Each block is a module of its own, checked as it is written, by ``mypy --strict`` with django-stubs
and by pyright. A block may use what earlier blocks of its page define or import, and what given.py
has. Errors name the page's own lines.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GIVEN = Path(__file__).with_name("given.py")
# What a page takes as given stands in comments that its readers don't see.
BLOCK = re.compile(r"^( *)(?:```python|<!-- given)\n(.*?)^\1(?:```|-->)", re.DOTALL | re.MULTILINE)
MODEL = re.compile(r"^class \w+\(.*(?:Model|Record)\):", re.MULTILINE)

MYPY = """\
[mypy]
strict = true
python_version = 3.11
plugins = mypy_django_plugin.main
untyped_calls_exclude = prometheus_client

[mypy-adrf.*,django_redis.*,huey.*]
ignore_missing_imports = true

[mypy.plugins.django-stubs]
django_settings_module = settings
"""

RELAXED = {
    "docs/howto/apis.md": "disallow_subclassing_any",
    "docs/howto/fencing.md": "disallow_any_generics",
    "docs/howto/task-queues.md": "disallow_untyped_decorators",
    "docs/reference/async.md": "disallow_untyped_calls",
}
"""What mypy is not to ask of a page: it uses what has no types, or generic views as a project
without stubs writes them.
"""

SETTINGS = """\
# type: ignore
from tests.settings import *

INSTALLED_APPS = [*INSTALLED_APPS, *{apps}]
"""

PYRIGHT = """\
{"typeCheckingMode": "standard", "pythonVersion": "3.11"}
"""


class Example(NamedTuple):
    """A block of Python in a page."""

    page: str
    line: int
    """Where the code begins in the page."""
    text: str

    @property
    def module(self) -> str:
        """The name of the module that holds it; for models, an installed app's, as in projects."""
        name = f"{re.sub(r'[^a-zA-Z0-9]', '_', self.page)}_{self.line}"
        return f"{name}.models" if MODEL.search(self.text) else name


def examples() -> Iterator[list[Example]]:
    """Yield the examples of each page that has some, in order."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(ROOT).as_posix()
        found = [
            Example(name, text.count("\n", 0, match.start(2)) + 1, dedent(match[2]))
            for match in BLOCK.finditer(text)
        ]
        if found:
            yield found


def modules(page: list[Example]) -> Iterator[tuple[str, str]]:
    """Yield each example's module, its name and text, with its lines where the page has them."""
    homes = dict(_bound(ast.parse(GIVEN.read_text(encoding="utf-8")), GIVEN.stem))
    for example in page:
        tree = ast.parse(example.text)
        bound = dict(_bound(tree, example.module))
        wanted = sorted(_used(tree) - bound.keys() - set(dir(builtins)))
        before = "; ".join(homes[name] for name in wanted if name in homes)
        lines = "\n" * (example.line - 1)
        yield example.module, f"{before}{lines}{example.text}"
        homes |= bound


def _used(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _bound(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a module's own lines bind, each with how another module imports it."""
    for node in tree.body:
        match node:
            case ast.Import(names) | ast.ImportFrom(names=names):
                for alias in names:
                    alone = type(node)(**{**vars(node), "names": [alias]})
                    yield alias.asname or alias.name.partition(".")[0], ast.unparse(alone)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name, f"from {module} import {name}"
            case _:
                for each in ast.walk(node):
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                        yield each.id, f"from {module} import {each.id}"


def write(folder: Path) -> dict[str, str]:
    """Write a module for each example into a folder.

    Return the page of each file, without its suffix.
    """
    shutil.copy(GIVEN, folder)
    pages: dict[str, str] = {}
    apps: list[str] = []
    for page in examples():
        for module, text in modules(page):
            path = module.replace(".", "/")
            if path != module:
                apps.append(module.partition(".")[0])
                (folder / apps[-1]).mkdir()
                (folder / apps[-1] / "__init__.py").touch()
            (folder / f"{path}.py").write_text(text, encoding="utf-8")
            pages[path] = page[0].page
    (folder / "settings.py").write_text(SETTINGS.format(apps=apps), encoding="utf-8")
    return pages


def check(command: list[str], folder: Path, pages: dict[str, str]) -> bool:
    """Run a type checker in the folder of the examples, and print what it finds.

    Return whether that is nothing.
    """
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    # As what stands in the page itself.
    named = re.compile(rf"(?:{re.escape(str(folder))}/)?\b({'|'.join(pages)})\.py\b")
    sys.stdout.write(named.sub(lambda match: pages[match[1]], f"{done.stdout}{done.stderr}"))
    return done.returncode == 0


def main() -> int:
    """Check all examples; return the exit status."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        pages = write(folder)
        relaxed = "".join(
            f"\n[mypy-{path.replace('/', '.')}]\n{RELAXED[page]} = false\n"
            for path, page in pages.items()
            if page in RELAXED
        )
        (folder / "mypy.ini").write_text(MYPY + relaxed, encoding="utf-8")
        (folder / "pyrightconfig.json").write_text(PYRIGHT, encoding="utf-8")
        sys.stdout.write(f"{len(pages)} examples in {len(set(pages.values()))} pages\n")
        modules = [f"{module}.py" for module in pages]
        passed = [
            check(["mypy", "--cache-dir", os.devnull, *modules], folder, pages),
            check(["basedpyright", "--pythonpath", sys.executable], folder, pages),
        ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
