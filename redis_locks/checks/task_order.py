"""System check of tasks; part of ``manage.py check`` where the project has imported a task queue.

| id | what is wrong |
|---|---|
| redis_locks.E010 | redis_lock stands above a task decorator |

The wrong order raises when the module is imported, but a web process may never import the modules
with tasks. So the check imports each app's ``tasks``, as Celery's workers do.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from importlib import import_module

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import module_has_submodule

from redis_locks.decorators.task_queues import WrongOrder

logger = logging.getLogger("redis_locks")

WRONG_ORDER = "redis_locks.E010"

_QUEUES = ("arq", "celery", "django_tasks", "dramatiq", "huey", "procrastinate", "rq", "taskiq")


def check_task_order(
    app_configs: Iterable[AppConfig] | None = None, **_: object
) -> list[CheckMessage]:
    """Return an error for each ``tasks`` module in which a lock stands above a task decorator."""
    if sys.modules.keys().isdisjoint(_QUEUES):
        return []
    configs = apps.get_app_configs() if app_configs is None else app_configs
    errors = (_wrong_order(f"{config.name}.tasks") for config in configs if _has_tasks(config))
    return [
        Error(f"{module}: {error.problem}", hint=error.advice, id=WRONG_ORDER)
        for module, error in errors
        if error is not None
    ]


def _has_tasks(config: AppConfig) -> bool:
    return config.module is not None and module_has_submodule(config.module, "tasks")


def _wrong_order(module: str) -> tuple[str, WrongOrder | None]:
    try:
        import_module(module)
    except WrongOrder as error:
        return module, error
    except Exception:
        logger.debug("Cannot look for locked tasks in %s", module, exc_info=True)
    return module, None
