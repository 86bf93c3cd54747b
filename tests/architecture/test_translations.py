"""The translations fit their texts: the same placeholders, and compiled as they stand.

Lint says which are missing.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("babel", reason="the extra `test` has it: it reads the catalogs")

from babel.messages.catalog import Message
from babel.messages.mofile import read_mo

from .translations import LANGUAGES, compiled, mo_file, texts, translated

IN_A_TEXT = re.compile(r"%\(\w+\)s|</?\w[^>]*>")
"""Placeholders and tags."""

both = pytest.mark.parametrize("language", LANGUAGES)


def pairs(message: Message) -> list[tuple[str, str]]:
    """Each text with its translation; a plural with its own."""
    if isinstance(message.id, str):
        return [(message.id, str(message.string))]
    last = len(message.id) - 1
    return [(message.id[min(n, last)], text) for n, text in enumerate(message.string)]


@both
def test_a_catalog_is_well_formed(language: str) -> None:
    """Whether it has a translation of every text is for lint and the release to say."""
    catalog = translated(language)
    assert not [message.id for message in catalog if message.id and message.fuzzy]
    assert [] == [(message.id, errors) for message, errors in catalog.check()]


@both
def test_a_translation_has_the_placeholders_and_tags_of_the_text(language: str) -> None:
    for message in translated(language):
        for text, translation in pairs(message) if message.id else ():
            if not translation:
                continue
            expected, found = map(IN_A_TEXT.findall, (text, translation))
            assert sorted(expected) == sorted(found), translation
            if not expected and '"' not in text:
                assert '"' not in translation, "it may stand in an attribute"


@both
def test_the_compiled_file_is_that_of_the_catalog(
    language: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = tmp_path_factory.mktemp("made") / "django.mo"
    made.write_bytes(compiled(language))
    found = []
    for path in (made, mo_file(language)):
        with path.open("rb") as file:
            found.append({(m.context, str(m.id)): m.string for m in read_mo(file) if m.id})
    assert found[0] == found[1]
    assert found[0]


def test_a_word_by_itself_has_a_context() -> None:
    """Django has one catalog for all apps: our "free" must not be what a shop's means."""
    alone = [m.id for m in texts() if isinstance(m.id, str) and " " not in m.id and not m.context]
    assert [""] == alone
