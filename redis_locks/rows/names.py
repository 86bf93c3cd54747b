"""The names of the locks of models and rows.

Such as "bank.Account@default" and "bank.Account@default:7".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.db.models import Field, Model

from redis_locks.conf.name_function import listed, server_name
from redis_locks.values.keys import validate_name


class Row(NamedTuple):
    """The names on the server of the locks of a row and of its model.

    Both are the model's if it is locked in place of its rows.
    """

    model: str
    name: str


def model_lock_name(model: type[Model], database: str) -> str:
    """Return the name of a model's lock; a proxy shares the lock of its concrete model."""
    concrete = model._meta.concrete_model or model
    return f"{concrete._meta.label}@{database}"


def row_of(model: type[Model], database: str, pk: object) -> Row:
    """Return the names for the row of `model` that has the primary key `pk`.

    Raises:
        ValueError: The name would be too long or have a NUL character.
    """
    fields: Sequence[Field[object, object]] = model._meta.pk_fields
    values = pk if isinstance(pk, tuple) else (pk,)
    texts = [_text(field, value) for field, value in zip(fields, values, strict=True)]
    if len(texts) > 1:
        # Escaped, so that ("a,b", "c") and ("a", "b,c") are different rows.
        texts = [text.replace("%", "%25").replace(",", "%2C") for text in texts]
    table = server_name(model_lock_name(model, database), "row")
    name = f"{table}:{','.join(texts)}"
    return Row(table, listed(validate_name(name, argument="the name of a row's lock")))


def _text(field: Field[object, object], value: object) -> str:
    # A key that was assigned, not read, may be of another type: "7" for 7.
    value = field.to_python(value)
    return value.hex() if isinstance(value, bytes | memoryview) else str(value)
