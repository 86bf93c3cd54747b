"""The texts that users see, as the sources have them and as the catalogs translate them.

``python -m tests.architecture.translations`` brings the catalogs up to date: new texts are added
without a translation, and the compiled files are written. It needs Babel, but no gettext programs.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import django
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "redis_locks"
LOCALES = PACKAGE / "locale"
LANGUAGES = ("de", "fr")

_KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}


def po_file(language: str) -> Path:
    return LOCALES / language / "LC_MESSAGES" / "django.po"


def mo_file(language: str) -> Path:
    return po_file(language).with_suffix(".mo")


def _sources() -> Iterator[tuple[Path, str]]:
    """Yield each source as Python: of a template, Django keeps what calls gettext."""
    from django.utils.translation.template import templatize

    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("templates/**/*.*")):
        calls = templatize(path.read_text(encoding="utf-8"))
        yield path, "\n".join(map(str.strip, calls.splitlines()))


def texts() -> Catalog:
    """Return a catalog of all texts that the sources mark."""
    found = Catalog(charset="utf-8", fuzzy=False)
    for path, source in _sources():
        where = str(path.relative_to(ROOT))
        for _line, text, _comments, context in extract(
            "python", io.BytesIO(source.encode()), keywords=_KEYWORDS
        ):
            found.add(text, locations=[(where, 0)], context=context)
    return found


def translated(language: str) -> Catalog:
    with po_file(language).open("rb") as file:
        return read_po(file, locale=language)


def names(messages: Iterable[Message]) -> set[tuple[str | None, str]]:
    """Return the context and the text of each message."""
    return {(message.context, str(message.id)) for message in messages if message.id}


def up_to_date(language: str) -> bytes:
    """Return the catalog's file with all texts of the sources, and no others."""
    catalog = translated(language)
    created = catalog.creation_date
    catalog.update(texts(), no_fuzzy_matching=True, update_header_comment=False)
    catalog.creation_date = created
    file = io.BytesIO()
    write_po(
        file, catalog, width=100, ignore_obsolete=True, sort_by_file=True, include_lineno=False
    )
    return file.getvalue()


def compiled(language: str) -> bytes:
    file = io.BytesIO()
    write_mo(file, translated(language))
    return file.getvalue()


if __name__ == "__main__":
    django.setup()
    for each in LANGUAGES:
        po_file(each).write_bytes(up_to_date(each))
        mo_file(each).write_bytes(compiled(each))
