"""Results of races, kept in Redis for an hour so that a page can be reloaded and its address passed on."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict
from typing import Any

import redis

from .race import Result, Runner
from .watcher import Moment

MEMORY_SECONDS = 3600


def remember(conn: redis.Redis, result: Result) -> uuid.UUID:
    """Keep a result and return the id that it is found by."""
    race_id = uuid.uuid4()
    conn.set(_key(race_id), json.dumps(asdict(result)), ex=MEMORY_SECONDS)
    return race_id


def recall(conn: redis.Redis, race_id: uuid.UUID) -> Result | None:
    """Return a result, or None if it is not, or no longer, there."""
    found = conn.get(_key(race_id))
    if found is None:
        return None
    data: dict[str, Any] = json.loads(found)
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


def _key(race_id: uuid.UUID) -> str:
    return f"race:{race_id}"
