"""Which rows belong to one row of a query: itself, its parents' rows, and those that `of` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model


class Column(NamedTuple):
    """A model whose rows are locked, and the lookup from the queried model to their primary key."""

    model: type[Model]
    lookup: str


def columns_of(model: type[Model], of: Sequence[str]) -> list[Column]:
    """Return the columns for the paths in `of`; "self" is the model itself.

    Raises:
        ValueError: A path does not lead to a model; the message lists the paths that do.
    """
    return list(
        dict.fromkeys(
            column
            for path in of
            for column in _with_parents(
                *((model, "") if path == "self" else (_related(model, path), f"{path}__"))
            )
        )
    )


def multiply(model: type[Model], of: Sequence[str]) -> bool:
    """Whether the paths in `of` may give several lines of a query for one row."""
    steps = (step for path in of if path != "self" for step in _steps(model, path))
    return any(step.one_to_many or step.many_to_many for step in steps)


def _related(model: type[Model], path: str) -> type[Model]:
    *_, last = _steps(model, path)
    related: type[Model] = last.related_model
    return related


def _steps(model: type[Model], path: str) -> Iterator[Any]:
    """Yield the relations of a path."""
    at: type[Model] = model
    for part in path.split("__"):
        try:
            field = at._meta.get_field(part)
        except FieldDoesNotExist:
            field = None
        related: type[Model] | None = getattr(field, "related_model", None)
        if related is None:
            msg = (
                f"of must name relations of {model._meta.label}, or 'self', not {path!r}; "
                f"{at._meta.label} has {', '.join(relations_of(at)) or 'none'}"
            )
            raise ValueError(msg)
        yield field
        at = related


def relations_of(model: type[Model]) -> list[str]:
    """Return the names of the model's relations, also of those from other models to it."""
    fields = model._meta.get_fields()
    return sorted(field.name for field in fields if isinstance(field.related_model, type))


def _with_parents(model: type[Model], prefix: str) -> Iterator[Column]:
    """The model and the parents whose tables have a part of its rows."""
    concrete = model._meta.concrete_model or model
    yield Column(concrete, f"{prefix}pk")
    for parent in concrete._meta.get_parent_list():
        steps = concrete._meta.get_path_to_parent(parent)
        link = "__".join(step.join_field.name for step in steps)
        yield Column(parent, f"{prefix}{link}__pk")
