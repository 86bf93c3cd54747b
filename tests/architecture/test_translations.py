"""The translations are complete: no text without one, no stale one, the same placeholders, compiled as they stand."""

from __future__ import annotations

import re

import pytest

from .prose import faults

pytest.importorskip("babel", reason="the extra `test` has it: it reads the catalogs")

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo

from .translations import LANGUAGES, compiled, mo_file, texts, translated

IN_A_TEXT = re.compile(r"%\(\w+\)s|</?\w[^>]*>")
"""Placeholders and tags."""

both = pytest.mark.parametrize("language", LANGUAGES)


def names(catalog: Catalog) -> set[tuple[str | None, str]]:
    return {(message.context, str(message.id)) for message in catalog if message.id}


def pairs(message: Message) -> list[tuple[str, str]]:
    """Each text with its translation; a plural with its own."""
    if isinstance(message.id, str):
        return [(message.id, str(message.string))]
    last = len(message.id) - 1
    return [(message.id[min(n, last)], text) for n, text in enumerate(message.string)]


@both
def test_a_catalog_has_the_texts_of_the_sources(language: str) -> None:
    """If not: ``python -m tests.architecture.translations``, and translate what it added."""
    assert names(texts()) == names(translated(language))


@both
def test_every_text_is_translated(language: str) -> None:
    catalog = translated(language)
    for message in catalog:
        if message.id:
            assert not message.fuzzy, message.id
            assert all(text for _, text in pairs(message)), message.id
            if message.pluralizable:
                assert catalog.num_plurals == len(message.string), message.id
    assert [] == [(message.id, errors) for message, errors in catalog.check()]


@both
def test_a_translation_has_the_placeholders_and_tags_of_the_text(language: str) -> None:
    for message in translated(language):
        for text, translation in pairs(message) if message.id else ():
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


def test_the_texts_are_plain() -> None:
    for message in texts():
        for text in [message.id] if isinstance(message.id, str) else message.id:
            assert not faults(IN_A_TEXT.sub("x", text))
