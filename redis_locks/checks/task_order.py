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
    return [
        Error(f"{config.name}.tasks: {error.problem}", hint=error.advice, id=WRONG_ORDER)
        for config in configs
        if (error := _wrong_order(config)) is not None
    ]


def _wrong_order(config: AppConfig) -> WrongOrder | None:
    """Return what is wrong with the tasks of an app.

    None if it has none, or if they cannot be imported.
    """
    if config.module is None or not module_has_submodule(config.module, "tasks"):
        return None
    module = f"{config.name}.tasks"
    try:
        import_module(module)
    except WrongOrder as error:
        return error
    except Exception:
        logger.debug("Cannot look for locked tasks in %s", module, exc_info=True)
    return None
