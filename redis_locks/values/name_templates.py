"""Lock names written as templates: "account:{account_id}", filled in from a call.

A field is a parameter, followed by attributes: ``{request.user.pk}``. Nothing else is
possible: no indexing, no conversion, no format, no private attribute. So a template runs
no code but attribute access, and a mistake shows when the function is decorated.

A value is text, a number, or of a type with a `__str__`, such as a UUID, a date or an enum. A
model's instance is refused: its text is for people, and two may have the same. So is lazily
translated text.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable
from typing import NamedTuple

from redis_locks.values.keys import UnusableName, validate_name


class Field(NamedTuple):
    """One field of a template: a parameter and the attributes to follow from it."""

    text: str
    root: str
    attributes: tuple[str, ...]

    def value_in(self, root: object) -> str:
        """The text of this field, given the value of its parameter."""
        value = root
        for attribute in self.attributes:
            try:
                value = getattr(value, attribute)
            except AttributeError as error:
                msg = (
                    f"lock name field {{{self.text}}}: a {type(value).__name__} has no "
                    f"attribute {attribute!r}"
                )
                raise AttributeError(msg) from error
        if type(value) in _PLAIN and value != "":
            return str(value)
        return self._as_text(value)

    def _as_text(self, value: object) -> str:
        if value is None:
            # "user:None" would be one lock that everybody without a user shares.
            msg = f"lock name field {{{self.text}}} is None; a name needs a value"
            raise ValueError(msg)
        if isinstance(value, (bytes, bytearray, memoryview)):
            msg = f"lock name field {{{self.text}}} is {type(value).__name__}; decode it to str"
            raise TypeError(msg)
        kind = value.__class__  # not type(), for a lazy object: it is what it loads
        if any((base.__module__, base.__name__) == _LAZY_TEXT for base in kind.__mro__):
            msg = (
                f"lock name field {{{self.text}}} is lazy text, as of gettext_lazy(), so each "
                "language would have a lock of its own; name a value that is the same in all of "
                "them"
            )
            raise TypeError(msg)
        if hasattr(kind, "pk"):
            # Two users may have the same name, and one may change it.
            msg = (
                f"lock name field {{{self.text}}} is a {kind.__name__}, whose text may be that of "
                f"another one, too; write {{{self.text}.pk}}"
            )
            raise TypeError(msg)
        if kind.__str__ is object.__str__ and not issubclass(kind, _NUMBERS):
            # The text may be an address in memory, so every process would have its own lock. Or it
            # names the type alone, and all share one.
            msg = (
                f"lock name field {{{self.text}}} is a {kind.__name__}, which has no text "
                "of its own; name an attribute that identifies it"
            )
            raise TypeError(msg)
        text = str(value)
        if not text:
            msg = f"lock name field {{{self.text}}} is empty; a name needs a value"
            raise UnusableName(msg)
        return text


_PLAIN = frozenset({int, str})
"""What nearly every field is; the questions to be asked of others take a while."""

_LAZY_TEXT = ("django.utils.functional", "Promise")
"""Where Django defines what `gettext_lazy` returns; this layer does not import Django."""

_NUMBERS = (int, float)
"""Types whose text is their `__repr__`, as they have no `__str__`. UUID, Decimal, dates and enums
have one.
"""


class NameTemplate(NamedTuple):
    """A parsed template: literal text and fields, in order."""

    text: str
    parts: tuple[str | Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in order."""
        return tuple(part for part in self.parts if isinstance(part, Field))

    def render(self, value_of: Callable[[str], object]) -> str:
        """The lock name, with each parameter's value taken from ``value_of(parameter)``.

        Raises:
            AttributeError: A value has no such attribute.
            TypeError: A value has no text that identifies it.
            ValueError: A value is None or empty, or the name is not valid.
        """
        rendered = [
            part if isinstance(part, str) else part.value_in(value_of(part.root))
            for part in self.parts
        ]
        return validate_name("".join(rendered))


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> NameTemplate:
    """The template that ``text`` spells; literal braces are doubled.

    Raises:
        ValueError: The text is not a template; the message names the faulty field.
    """
    text = text[:]  # see `validate_name`
    parts: list[str | Field] = []
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        msg = f"lock name {text!r} is not a template: {error}; double literal braces: {{{{ }}}}"
        raise ValueError(msg) from None
    for literal, field, format_spec, conversion in pieces:
        if literal:
            parts.append(literal)
        if field is not None:
            parts.append(_parse_field(text, field, plain=not format_spec and conversion is None))
    template = NameTemplate(text, tuple(parts))
    if not template.fields:
        validate_name("".join(str(part) for part in parts))
    return template


def in_block(text: str) -> str:
    """The lock name that ``text`` spells where no call fills it in; literal braces are doubled.

    Raises:
        ValueError: The text has fields, or is not a template.
    """
    if "{" not in text and "}" not in text:
        return text
    try:
        template = parse(text)
    except ValueError as error:
        msg = f"{error}. In a block write an f-string, or Lock(...), which takes any text as it is"
        raise ValueError(msg) from None
    if template.fields:
        msg = (
            f"lock name {text!r} has the field {{{template.fields[0].text}}}, which only the call "
            f"of a decorated function can fill in. In a block write an f-string, f{text!r}; or, "
            "for this very name, Lock(...), or doubled braces"
        )
        raise ValueError(msg)
    return template.render(lambda root: root)


def _parse_field(template: str, field: str, *, plain: bool) -> Field:
    root, *attributes = field.split(".")
    private = any(attribute.startswith("_") for attribute in attributes)
    if not plain or private or not all(part.isidentifier() for part in (root, *attributes)):
        msg = (
            f"lock name {template!r}: the field {{{field}}} must be a parameter followed by "
            "public attributes, such as {account_id} or {request.user.pk}; no indexing, no "
            "conversion, no format (for more, give a callable)"
        )
        raise ValueError(msg)
    return Field(field, root, tuple(attributes))
