"""What races led to, kept in Redis for an hour so that a page can be reloaded and its address passed on."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import redis

from redis_locks import inspection

from .race import Result, Runner
from .rush import Till
from .turns import RACE_LOCK
from .watcher import Moment

MEMORY_SECONDS = 3600
_UNDER_WAY = b"null"


def announce(conn: redis.Redis) -> uuid.UUID:
    """Return the id of a race that is under way; `is_under_way` knows it until `remember` or `forget`."""
    race_id = uuid.uuid4()
    conn.set(_key(race_id), _UNDER_WAY, ex=MEMORY_SECONDS)
    return race_id


def is_under_way(conn: redis.Redis, race_id: uuid.UUID) -> bool:
    """Whether the race has been announced and has not ended, nor has its process."""
    # Before the result, which is kept before the lock is released.
    is_somebody_racing = inspection.lock(RACE_LOCK) is not None
    return is_somebody_racing and conn.get(_key(race_id)) == _UNDER_WAY


def remember(conn: redis.Redis, result: Result, race_id: uuid.UUID | None = None) -> uuid.UUID:
    """Keep a result and return the id that it is found by."""
    race_id = race_id or uuid.uuid4()
    conn.set(_key(race_id), json.dumps(asdict(result)), ex=MEMORY_SECONDS)
    return race_id


def forget(conn: redis.Redis, race_id: uuid.UUID) -> None:
    """Take back that the race is under way."""
    conn.delete(_key(race_id))


def recall(conn: redis.Redis, race_id: uuid.UUID) -> Result | None:
    """Return a result, or None if it is not, or no longer, there."""
    found = conn.get(_key(race_id))
    data: dict[str, Any] | None = json.loads(found) if found else None
    if data is None:
        return None
    moment = data.pop("fullest")
    runners = tuple(
        Runner(**{**runner, "waited_for": tuple(runner["waited_for"])})
        for runner in data.pop("runners")
    )
    pairs: dict[str, Any] = {
        pair: tuple(data.pop(pair)) for pair in ("accounts", "before", "after")
    }
    fullest = moment and Moment(moment["lock"], moment["holder"], tuple(moment["queue"]))
    return Result(**data, **pairs, runners=runners, fullest=fullest)


def remember_rush(conn: redis.Redis, tills: Sequence[Till]) -> uuid.UUID:
    """Keep what a rush led to and return the id that it is found by."""
    rush_id = uuid.uuid4()
    conn.set(f"rush:{rush_id}", json.dumps([asdict(till) for till in tills]), ex=MEMORY_SECONDS)
    return rush_id


def recall_rush(conn: redis.Redis, rush_id: uuid.UUID) -> list[Till] | None:
    """Return what a rush led to, or None if it is not, or no longer, there."""
    found = conn.get(f"rush:{rush_id}")
    return [Till(**till) for till in json.loads(found)] if found else None


def _key(race_id: uuid.UUID) -> str:
    return f"race:{race_id}"
