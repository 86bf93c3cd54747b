from __future__ import annotations

from celery import shared_task

from redis_locks import redis_lock


@shared_task(name="tests.right_order.charge")
@redis_lock("account:{account_id}")
def charge(account_id: int) -> None: ...
