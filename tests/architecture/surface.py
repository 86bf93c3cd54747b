"""Describe what users of the app may rely on, as lines of text.

`test_public_api` and `__main__` call it.

Everything is read from the running code: names, signatures with their annotations as they are
written, and the names that a project spells in its settings, templates and scripts. Where a class
is defined does not matter, only from where a user imports it. A member is listed once, at the
farthest class that has it. What another package promises, such as `QuerySet.count`, is not listed.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final
from unittest.mock import Mock

from django.apps import apps
from django.core.management import load_command_class
from django.dispatch import Signal

import redis_locks

PACKAGE: Final = Path(redis_locks.__file__).parent
FILE: Final = Path(__file__).parent / "public_api.txt"

MODULES: Final = (
    "redis_locks",
    "redis_locks.compat",
    "redis_locks.diagnosis",
    "redis_locks.exceptions",
    "redis_locks.fencing",
    "redis_locks.inspection",
    "redis_locks.integrations.celery",
    "redis_locks.integrations.fenced_admin",
    "redis_locks.integrations.ninja",
    "redis_locks.integrations.prometheus",
    "redis_locks.integrations.rest_framework",
    "redis_locks.optimistic",
    "redis_locks.rows",
    "redis_locks.signals",
    "redis_locks.statistics",
    "redis_locks.testing",
)
"""The modules that a user may import. `lock_timeout` and `lock_deadline` are names of
`redis_locks`.
"""

PATHS: Final = (
    "redis_locks.integrations.debug_toolbar.LocksPanel",
    "redis_locks.middleware.lock_responses",
    "redis_locks.middleware.request_deadline",
    "redis_locks.testing.pytest_plugin.redis_locks",
)
"""What users name, in their settings or as a fixture, and neither call nor derive from."""

TEMPLATES: Final = (
    "admin/redis_locks/index.html",
    *(
        f"redis_locks/{name}.{kind}"
        for name in ("locked", "unavailable")
        for kind in ("html", "txt", "json")
    ),
)
"""What a project may extend, or put one of its own in the place of."""

ADMIN_PAGES: Final = ("changelist", "change")
"""The pages of the admin to which a project may link."""

RECEIVED: Final = {
    "AlertEvent", "AsyncWatchingPipeline", "Event", "FencedRows",
    "ForceReleased", "HolderInfo", "LockEvent", "LockInfo", "LockStatistics", "LockedRows",
    "Moment", "Parties", "PastHold", "RunEvent", "RunStatus", "Statistics", "Wait", "WaiterInfo",
    "WatchingPipeline",
}  # fmt: skip
"""What users get and read, and never make: more fields may come, so the constructor is not public.
"""

OURS: Final = "redis_locks"
NOT_PUBLIC: Final = {
    "AsyncWatchingPipeline": "is_protected is_transaction leave link require_protection",
    "Attempt": "__init__ answer as_current begin roll_back",
    "FencedModelAdmin": "get_actions",
    "FencedQuerySet": "is_read_alone under_hold",
    "Hold": (
        "__init__ aend_block backend called_block cancelled commit_on detach_on downgrade_on "
        "drop end end_block end_on ends_plainly extend_on is_open kept last_moment lease "
        "leave_behind parts pid release_on released releaser stays_closed "
        "upgrade_on upgrade_token"
    ),
    "Lock": "aenter enter guard of_call on_unavailable options says_on_unavailable scope",
    "LockedRows": "__init__",
    "RedisLockAPIMixin": "handle_exception initial",
    "RedisLockQuerySet": "__init__ is_read_alone refuse_as_part resolve_expression under_hold",
    "Semaphore": "keywords_of",
    "ServerMetrics": "describe",
    "WatchingPipeline": "is_protected is_transaction leave link require_protection",
    "redis_lock": "keywords_of",
    "unique_task": "on_duplicate rule",
}
"""Members that the app's own modules or a framework call, although their names have no underscore:
no user may rely on them.
"""

_MADE_BY_DJANGO: Final = re.compile(r"Meta|get_(next|previous)_by_\w+")
"""What Django gives to a model's class."""

_PLAIN: Final = {object, Exception, typing.Generic, typing.Protocol}

PROTOCOLS: Final = {
    "__aenter__", "__aexit__", "__aiter__", "__bool__", "__call__", "__contains__", "__enter__",
    "__exit__", "__getitem__", "__init__", "__iter__", "__len__",
}  # fmt: skip
"""The special methods that are part of a signature. Others, such as `__repr__`, are not listed."""


class _Written:
    """Text that `inspect.Signature` prints as it stands, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def describe() -> list[str]:
    """Return the public API, a line for each name."""
    lines: list[str] = []
    for title, part in (
        *((f"module {name}", _module(name)) for name in MODULES),
        ("dotted paths", _paths()),
        ("setting REDIS_LOCKS", _settings()),
        ("manage.py locks", _command()),
        ("permissions", _permissions()),
        ("names of the app", _app()),
        ("system checks", _spelled(r"\"(redis_locks\.[EWI]\d{3})\"")),
        ("loggers", _spelled(r"getLogger\(\"([\w.]+)\"\)")),
        ("metrics", _metrics()),
        ("templates", _templates()),
        ("URLs of the admin", _admin_urls()),
    ):
        lines += [f"## {title}", *part, ""]
    return lines[:-1]


def exported(module: ModuleType) -> list[str]:
    """Return a module's public names: its `__all__`, or what the package defines and it has."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def _module(name: str) -> Iterator[str]:
    module = import_module(name)
    for public in exported(module):
        value = getattr(module, public)
        first = _first_module(value)
        if first in {None, name}:
            yield from _thing(public, value)
        else:
            yield f"{public}: that of {first}"


def _paths() -> Iterator[str]:
    for path in PATHS:
        module, _, name = path.rpartition(".")
        getattr(import_module(module), name)
        yield path


def _first_module(value: Any) -> str | None:
    """Return the first of `MODULES` that has this class or function, which is described there."""
    if not isinstance(value, (type, FunctionType)):
        return None
    for module in _imported():
        if any(getattr(module, name) is value for name in exported(module)):
            return module.__name__
    return None


def _thing(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, type):
        yield from _class(name, value)
    elif isinstance(value, FunctionType):
        yield _function(name, value)
    elif isinstance(value, Signal):
        yield f"{name}: Signal  # sends {_arguments_of(name)}"
    elif (
        hasattr(value, "_pytestfixturefunction")
        or type(value).__name__ == "FixtureFunctionDefinition"
    ):
        yield f"fixture {name}  # {value._fixture_function_marker.scope}"
    elif isinstance(value, (str, int, float, frozenset, tuple)):
        yield f"{name} = {value!r}"
    elif typing.get_origin(value) is typing.Literal:
        yield f"{name} = Literal{list(typing.get_args(value))}"
    else:
        yield f"{name}: {type(value).__name__}"


def _arguments_of(signal: str) -> str:
    return "event: RunEvent" if signal.startswith("run_") else "event: LockEvent"


def _function(name: str, function: Any) -> str:
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"{word} {name}{_signature(function)}"


def keywords(function: Any) -> dict[str, Any]:
    """Return what `**options` of a callable may be, with the types as they are written."""
    called = function.__init__ if isinstance(function, type) else function
    written = getattr(called, "__annotations__", {}).get("options")
    if not str(written).startswith("Unpack["):
        return {}
    options = called.__globals__[written.removeprefix("Unpack[").removesuffix("]")]
    return dict(options.__annotations__)


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=_annotation(parameter.annotation))
        for parameter in signature.parameters.values()
    ]
    if options := keywords(function):
        parameters[-1:] = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_Written("..."),
                annotation=_annotation(each),
            )
            for name, each in options.items()
        ]
    returns = _annotation(signature.return_annotation)
    return re.sub(
        r" at 0x[0-9a-f]+",
        "",
        str(signature.replace(parameters=parameters, return_annotation=returns)),
    )


def _annotation(annotation: Any) -> Any:
    # A named tuple's is wrapped.
    annotation = getattr(annotation, "__forward_arg__", annotation)
    return _Written(annotation) if isinstance(annotation, str) else annotation


def _class(name: str, cls: type) -> Iterator[str]:
    received = name in RECEIVED
    bases = ", ".join(_bases(cls))
    yield f"{'received' if received else 'class'} {name}({bases})"
    members = _public_members(cls)
    ancestors = (base for base in cls.__mro__[1:] if base in _public_classes())
    inherited = {line for base in ancestors for line in _public_members(base).values()}
    for member in sorted(members):
        if members[member] not in inherited and not (received and member == "__init__"):
            yield f"    {members[member]}"


def members(cls: type) -> list[str]:
    """Return the names of the public members of a class, without its special methods."""
    return [member for member in _public_members(cls) if not member.startswith("_")]


def _public_members(cls: type) -> dict[str, str]:
    hidden = {word for base in cls.__mro__ for word in NOT_PUBLIC.get(base.__name__, "").split()}
    return {member: line for member, line in _members(cls) if member not in hidden}


def _bases(cls: type) -> Iterator[str]:
    """The public ancestors, and of other packages the direct ones.

    `except` and `isinstance` can name them.
    """
    lineage = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == OURS]
    direct = {base for ours in lineage for base in ours.__bases__} - _PLAIN
    for base in cls.__mro__[1:]:
        if base in _public_classes() if base in lineage else base in direct:
            yield base.__name__


def _public_classes() -> set[type]:
    found = (getattr(module, name) for module in _imported() for name in exported(module))
    return {value for value in found if isinstance(value, type)}


def _imported() -> list[ModuleType]:
    return [import_module(name) for name in MODULES]


def _members(cls: type) -> Iterator[tuple[str, str]]:
    """The public members with those of ancestors in this package, the farthest ancestor first."""
    if _is_record(cls):
        yield "__init__", f"def __init__{_signature(cls)}"
    for owner in reversed(cls.__mro__):
        if owner.__module__.partition(".")[0] != OURS:
            continue
        annotations = inspect.get_annotations(owner)
        for name in (*annotations, *_assigned(owner)):
            if not name.startswith("_") and not _is_of_others(cls, name):
                yield name, f"{name}: {_annotation(annotations.get(name, 'attribute'))}"
        for name, value in vars(owner).items():
            public = not name.startswith("_") or (name in PROTOCOLS and not _is_made(name, owner))
            public = public and not _is_of_others(cls, name, value)
            public = public and not _MADE_BY_DJANGO.fullmatch(name)
            if public and (line := _member(name, value, annotations.get(name))) is not None:
                yield name, line


def _is_of_others(cls: type, name: str, value: Any = None) -> bool:
    """Whether another package promises a member, and ours takes no more arguments than it."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in {OURS, "builtins", "typing"}:
            continue
        if name in {*vars(base), *inspect.get_annotations(base), *_assigned(base)}:
            return not _parameters(value) - _parameters(vars(base).get(name))
    return False


def _parameters(value: Any) -> set[str]:
    """Return the names of what a method takes, without those that stand for any."""
    function = getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        return set()
    parameters = inspect.signature(function).parameters.values()
    stand_for_any = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return {each.name for each in parameters if each.kind not in stand_for_any}


def _is_record(cls: type) -> bool:
    return is_dataclass(cls) or hasattr(cls, "_fields")


def _is_made(name: str, owner: type) -> bool:
    return name == "__init__" and _is_record(owner)


def _member(name: str, value: Any, annotation: str | None) -> str | None:
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {_function(name, value.__func__)}"
    if isinstance(value, FunctionType):
        return _function(name, value)
    if isinstance(value, (property, cached_property)):
        getter: Any = value.fget if isinstance(value, property) else value.func
        settable = " (settable)" if getattr(value, "fset", None) else ""
        return f"property {name}: {inspect.signature(getter).return_annotation}{settable}"
    if isinstance(wrapped := getattr(value, "__wrapped__", None), FunctionType):
        return _function(name, wrapped)  # a descriptor in place of a method
    if inspect.isdatadescriptor(value):  # a slot, of which its annotation or `__init__` tells
        return None
    kind = f": {_annotation(annotation)}" if annotation else ""
    shown = f" = {value!r}" if isinstance(value, (str, int, float, tuple, type(None))) else ""
    return f"{name}{kind}{shown}"


def _assigned(owner: type) -> Iterator[str]:
    """The attributes that `__init__` gives to an object."""
    init = vars(owner).get("__init__")
    if not isinstance(init, FunctionType) or is_dataclass(owner):
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


def _settings() -> Iterator[str]:
    from redis_locks.conf.settings import Settings
    from redis_locks.conf.validation import ENTRIES

    for key in sorted(ENTRIES):
        annotation = inspect.get_annotations(Settings)[key.lower()]
        yield f"{key}: {_annotation(annotation)} = {Settings._field_defaults[key.lower()]!r}"


def _command() -> Iterator[str]:
    parser = load_command_class("redis_locks", "locks").create_parser("manage.py", "locks")
    common = {option for action in _bare_parser()._actions for option in action.option_strings}
    yield from _arguments(parser, common)


def _bare_parser() -> argparse.ArgumentParser:
    from django.core.management.base import BaseCommand

    return BaseCommand().create_parser("manage.py", "nothing")


def _arguments(parser: argparse.ArgumentParser, known: set[str]) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in sorted(action.choices):
                yield f"locks {verb}"
                yield from (
                    f"    {line}" for line in sorted(_arguments(action.choices[verb], known))
                )
        elif not known.intersection(action.option_strings):
            spelled = ", ".join(action.option_strings) or str(action.dest)
            choices = f" of {sorted(map(str, action.choices))}" if action.choices else ""
            default = (
                "" if action.default in (None, argparse.SUPPRESS) else f" = {action.default!r}"
            )
            yield f"{spelled}{choices}{default}"


def _permissions() -> Iterator[str]:
    for model in apps.get_app_config("redis_locks").get_models():
        meta = model._meta
        for verb in meta.default_permissions:
            yield f"{meta.app_label}.{verb}_{meta.model_name}"
        yield from (f"{meta.app_label}.{codename}" for codename, _ in meta.permissions)


def _app() -> Iterator[str]:
    config = apps.get_app_config("redis_locks")
    kind = type(config).__name__
    yield f"app label {config.label}, config {kind}, distribution django-redis-locks"
    for model in config.get_models():
        yield f"model {model._meta.label}, managed {model._meta.managed}"


def _spelled(pattern: str) -> list[str]:
    sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    return sorted({found for source in sources for found in re.findall(pattern, source)})


def _metrics() -> Iterator[str]:
    from prometheus_client import CollectorRegistry

    from redis_locks.integrations.opentelemetry import OpenTelemetry
    from redis_locks.integrations.prometheus import PrometheusMetrics

    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    yield from sorted(f"prometheus {metric.type} {metric.name}" for metric in registry.collect())
    meters = Mock()
    OpenTelemetry(meter_provider=meters)
    made = meters.get_meter().method_calls
    yield from sorted(f"opentelemetry {method} {arguments[0]}" for method, arguments, _ in made)


def _templates() -> Iterator[str]:
    for name in TEMPLATES:
        if (PACKAGE / "templates" / name).is_file():
            yield name


def _admin_urls() -> Iterator[str]:
    from django.contrib import admin

    from redis_locks.models import Lock

    names = [f"redis_locks_lock_{page}" for page in ADMIN_PAGES]
    for url in admin.site.get_model_admin(Lock).urls:
        if url.name in names:
            yield f"admin:{url.name} {url.pattern}".rstrip()
