from __future__ import annotations

from celery import shared_task

from redis_locks import redis_lock


@redis_lock("account:{account_id}")
@shared_task(name="tests.wrong_order.charge")
def charge(account_id: int) -> None: ...
