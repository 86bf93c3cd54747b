"""Accounts that are rows: how to create, read and remove them.

No Redis client is needed, and none is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import redis
from django.db import connection, models
from django.db.transaction import atomic

from demo_project.bank.accounts import Books, UnknownAccount

if TYPE_CHECKING:
    from redis_locks.fencing import FencedQuerySet

    from .models import Account, Operation


def accounts() -> FencedQuerySet[Account]:
    """All accounts. The table of strategies is imported before Django has loaded the models."""
    from .models import Account

    return Account.objects.all()


def operations() -> models.QuerySet[Operation]:
    """All operations that were applied."""
    from .models import Operation

    return Operation.objects.all()


def seed_rows(_conn: redis.Redis, balances: Mapping[str, int]) -> None:
    """Create the accounts, or set them back, each with its balance in cents."""
    rows = accounts()
    with atomic():
        rows.filter(name__in=balances).delete()
        rows.bulk_create(rows.model(name=name, cents=cents) for name, cents in balances.items())


def read_rows(_conn: redis.Redis, names: Iterable[str]) -> dict[str, int]:
    """Balances in cents as of one moment.

    Raises:
        UnknownAccount: One of the accounts does not exist.
    """
    wanted = list(names)
    found = dict(accounts().filter(name__in=wanted).values_list("name", "cents"))
    for name in wanted:
        if name not in found:
            raise UnknownAccount(f"There is no account {name!r}.")
    return {name: found[name] for name in wanted}


def delete_rows(_conn: redis.Redis, names: Iterable[str]) -> None:
    """Remove the accounts and their operations; unknown ones are ignored."""
    accounts().filter(name__in=list(names)).delete()


ROWS = Books(seed_rows, read_rows, delete_rows)


def unavailable() -> str:
    """Why no transfer is safe on this database, or "" if transfers are."""
    mode = connection.settings_dict["OPTIONS"].get("transaction_mode") or ""
    if connection.vendor != "sqlite" or mode.upper() == "IMMEDIATE":
        return ""
    return (
        "SQLite has no row locks, so transfers need transactions that lock the database when they "
        'begin: set OPTIONS["transaction_mode"] to "IMMEDIATE" in DATABASES.'
    )
