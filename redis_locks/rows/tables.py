"""`lock_model`: lock all rows of a model at once, future rows included."""

from __future__ import annotations

from typing import Unpack

from django.db import router
from django.db.models import Model, QuerySet

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.locks.lock import Lock
from redis_locks.locks.options import varied
from redis_locks.rows.blocks import RowOptions, checked_wait
from redis_locks.rows.names import model_lock_name
from redis_locks.values.arguments import refuse_unknown
from redis_locks.values.modes import RowMode, row_mode


class lock_model(Lock):  # noqa: N801 - used as a block, so it reads like a function
    """Locks a whole model as if it locked each row: a `Lock` that excludes `lock_rows`.

    The modes conflict with those of rows as row modes conflict with each other. This includes rows
    that are locked as the parents of a child's rows. With ``"shared"``, others can lock rows to
    read, but not to write.

    Args:
        model: The model.
        mode: As for `lock_rows`.
        nowait: Raise LockNotAvailable at once if somebody else is in the way.
        wait: Seconds to wait. 0: as `nowait`. None: for ever.
        database: The alias of the database; None is the one to which the model is written. Its
            transactions keep the hold.
        lease: Seconds a hold lives unless renewed or extended.
        renew: Whether the hold is renewed in the background.
        using: The Redis server, as for `Lock`.
        label: What the holder runs, for people.
        scope: As for `Lock`.
        commit_guard: As for `Lock`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or excludes another one.
    """

    _kind = "row"

    def __init__(
        self,
        model: type[Model],
        mode: RowMode = "exclusive",
        *,
        nowait: bool = False,
        wait: float | Unset | None = UNSET,
        database: str | None = None,
        **options: Unpack[RowOptions],
    ) -> None:
        if not _has_table(model):
            raise _no_model(model)
        refuse_unknown(options, RowOptions.__optional_keys__, "lock_model")
        alias = database if database is not None else router.db_for_write(model)
        super().__init__(
            model_lock_name(model, alias),
            wait=checked_wait(wait, nowait=nowait, skip_locked=False),
            database=alias,
            on_unavailable="raise",  # as rows do
            **options,
        )
        self.options = varied(self.options, mode=row_mode(mode))


def _no_model(given: object) -> TypeError:
    # To show a queryset would run its query.
    shown = "a queryset" if isinstance(given, QuerySet) else repr(given)
    fix = ": lock rows by lock_rows()" if isinstance(given, Model | QuerySet) else ""
    return TypeError(f"model must be a model that has a table, such as Order, not {shown}{fix}")


def _has_table(model: object) -> bool:
    is_model = isinstance(model, type) and issubclass(model, Model)
    return is_model and not model._meta.abstract  # type: ignore[attr-defined]
