"""A race in slow motion: it goes on in the background, so that visitors can look at its queue."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import Future

import redis

from .race import SLOW_EACH_WAY, SLOW_SECONDS, run_race
from .results import announce, forget, remember
from .turns import race_turn


def start_slow_race(
    conn: redis.Redis, accounts: tuple[str, str], cents: int, *, strategy: str
) -> uuid.UUID:
    """Start a race of few transfers that each work for long, and return the id of its result.

    Raises:
        BankInUse: Another race, or a long transfer, is under way.
        LockBackendError: Redis could not be asked.
    """
    race_id = announce(conn)
    started: Future[None] = Future()

    def run() -> None:
        try:
            with race_turn():
                started.set_result(None)
                result = run_race(
                    conn,
                    accounts,
                    cents,
                    strategy=strategy,
                    each_way=SLOW_EACH_WAY,
                    work_seconds=SLOW_SECONDS,
                )
                remember(conn, result, race_id)
        except Exception as error:
            forget(conn, race_id)
            if started.done():
                raise
            started.set_exception(error)

    threading.Thread(target=run, name="slow race", daemon=True).start()
    started.result()
    return race_id
