"""The terms of a job: how often it is tried, how long it is remembered, and its lock's options."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from django.core.serializers.json import DjangoJSONEncoder

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.connections.backends import Backend
from redis_locks.locks.timeouts import bounded
from redis_locks.protocol import plans
from redis_locks.protocol.plans import Plan
from redis_locks.run_once import scripts
from redis_locks.run_once.results import ResultFormat
from redis_locks.values.arguments import flag, optional_text, whole_number
from redis_locks.values.durations import MAX_SECONDS, lease_ms, seconds, wait_seconds

if TYPE_CHECKING:
    from redis_locks.run_once.job_rows import Record, RunOnceRecord

MIN_TTL = 0.01
"""Seconds for which an outcome is remembered at least. In less time waiters would not learn it."""

MOST_ATTEMPTS = 1_000_000

OnConflict = Literal["raise", "skip", "retry"] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobTerms:
    """The options of `run_once`, validated; its docstring says what each means.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    max_attempts: int = 3
    done_ttl: float = 86_400.0
    store_result: bool = False
    wait: float | Unset | None = 0.0
    lease: float | Unset = UNSET
    renew: bool | Unset = UNSET
    using: str | None = None
    label: str | None = None
    on_conflict: OnConflict = None
    encoder: type[json.JSONEncoder] | None = None
    decoder: type[json.JSONDecoder] | None = None
    record: type[RunOnceRecord] | None = None
    """The model whose rows say which jobs are done."""
    template: str | None = None
    """What the job's name was made from; see `LockEvent.template`."""

    def __post_init__(self) -> None:
        """Say what is wrong, naming argument, value and fix."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not UNSET:
                _CHECKS[field.name](value, field.name)

    def of_function(self, label: str | None, template: str | None) -> JobTerms:
        """Return the same terms for a decorated function.

        `label` is what it is called if the terms do not say.
        """
        return replace(self, label=self.label or label, template=template)

    def record_of(self, name: str) -> Record | None:
        """Return the row of job `name`; None if it has none."""
        if self.record is None:
            return None
        # Not above: it defines a model, for which Django's apps have to be known.
        from redis_locks.run_once.job_rows import Record

        return Record(self.record, name, self.done_ttl, self.format, self.store_result)

    def plan(self, backend: Backend, name: str) -> Plan:
        """Return how an attempt at job `name` is asked for on a server, as the settings are now."""
        known = backend.terms.get(self)
        if known is None:
            known = backend.remember_terms(self, self._terms(backend))
        return Plan(known, (name,), backend.keys(name), is_found=False)

    def _terms(self, backend: Backend) -> plans.Terms:
        settings = get_settings()
        return plans.Terms(
            "exclusive",
            settings.lease_ms if self.lease is UNSET else lease_ms(self.lease),
            backend=backend,
            renews=settings.renew if self.renew is UNSET else self.renew,
            label=self.label,
            template=self.template,
            script=scripts.EXTEND,
        )

    @property
    def format(self) -> ResultFormat:
        """How results are written and read."""
        return ResultFormat(self.encoder or DjangoJSONEncoder, self.decoder or json.JSONDecoder)

    @property
    def results(self) -> ResultFormat | None:
        """How this job's result is stored; None if it is not."""
        return self.format if self.store_result else None

    @property
    def kept_ms(self) -> int:
        """How long the record of the job outlives a lease or an outcome."""
        return math.ceil(round(self.done_ttl * 1000, 6))

    def effective_wait(self, wait: float | Unset | None) -> float | None:
        """Return the wait in seconds, given what one call asks for."""
        if wait is not UNSET:
            return bounded(wait_seconds(wait))
        return bounded(get_settings().wait if self.wait is UNSET else self.wait)


def _ttl(value: object, argument: str) -> None:
    if not MIN_TTL <= seconds(value, argument=argument) <= MAX_SECONDS:
        msg = (
            f"{argument} must be between {MIN_TTL} seconds and one year, not {value!r}: "
            "it is how long nobody does the job again"
        )
        raise ValueError(msg)


def _on_conflict(value: object, argument: str) -> None:
    if value not in ("raise", "skip", "retry", None):
        msg = f"{argument} must be 'raise', 'skip', 'retry' or None, not {value!r}"
        raise ValueError(msg)


def _subclass_of(kind: type) -> Callable[[object, str], None]:
    def check(value: object, argument: str) -> None:
        if value is not None and not (isinstance(value, type) and issubclass(value, kind)):
            msg = f"{argument} must be a subclass of json.{kind.__name__} or None, not {value!r}"
            raise TypeError(msg)

    return check


def _record(value: object, argument: str) -> None:
    if value is None:
        return
    # Not above, as in `Terms.record_of`.
    from redis_locks.run_once.job_rows import RunOnceRecord

    if not (
        isinstance(value, type) and issubclass(value, RunOnceRecord) and not value._meta.abstract
    ):
        msg = (
            f"{argument} must be a model of yours that is a subclass of RunOnceRecord and not "
            f"abstract, such as `class JobRecord(RunOnceRecord): pass`, or None, not {value!r}"
        )
        raise TypeError(msg)


_CHECKS: Mapping[str, Callable[[object, str], object]] = {
    "max_attempts": whole_number(1, MOST_ATTEMPTS),
    "done_ttl": _ttl,
    "store_result": flag,
    "wait": wait_seconds,
    "lease": lease_ms,
    "renew": flag,
    "using": optional_text,
    "label": optional_text,
    "on_conflict": _on_conflict,
    "encoder": _subclass_of(json.JSONEncoder),
    "decoder": _subclass_of(json.JSONDecoder),
    "record": _record,
    "template": optional_text,
}
