"""What a lock may be told beside its names: `Options`.

They are checked once for all locks that are told the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from inspect import signature
from typing import Any, Final, Literal, ParamSpec, TypedDict, TypeVar, get_args

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.conf.validation import MAX_REPLICAS, OnUnavailable
from redis_locks.connections.backends import Backend
from redis_locks.locks.scope import Scope, ScopeName
from redis_locks.protocol.plans import Terms
from redis_locks.values.arguments import flag, one_of, optional_text, refuse_unknown, whole_number
from redis_locks.values.durations import lease_ms, seconds, span_seconds, wait_seconds

P = ParamSpec("P")
T = TypeVar("T")

Mode = Literal["exclusive", "shared"]

Reentrant = bool | Literal["thread"]


class PermitOptions(TypedDict, total=False):
    """The options that any lock has, a semaphore, too; `Lock` says what they do."""

    wait: float | Unset | None
    lease: float | Unset
    renew: bool | Unset
    using: str | None
    label: str | None
    scope: ScopeName
    database: str | None
    commit_guard: bool
    replicas: int | Unset
    max_hold: float | Unset
    on_unavailable: OnUnavailable | Unset
    max_waiting: int | None


class LockOptions(PermitOptions, total=False):
    """The options of a lock that is no semaphore."""

    mode: Mode
    reentrant: Reentrant
    crash_release: bool
    at_least: float


MOST_WAITING: Final = 1_000_000
"""The greatest `max_waiting`."""

_MOST: Final = 512
"""How many options are remembered."""


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """How locks are taken, as `Lock` says; UNSET: as the settings say at the time."""

    mode: str
    wait: float | Unset | None
    lease_ms: int | Unset
    renew: bool | Unset
    using: str | None
    label: str | None
    scope: Scope
    reentrant: Reentrant
    crash_release: bool
    replicas: int | Unset
    max_hold: float | None
    """None: as the settings say."""
    on_unavailable: OnUnavailable | Unset
    template: str | None = None
    """What the names were made from; see `LockEvent.template`."""
    shown_mode: str | None = None
    """What people call the mode, if that is not what scripts call it."""
    at_least_ms: int = 0
    max_waiting: int | None = None

    @property
    def renews(self) -> bool:
        """Whether holds are renewed."""
        return get_settings().renew if self.renew is UNSET else self.renew

    def terms(self, backend: Backend) -> Terms:
        """Return what it comes to on a server, as the settings are now."""
        found = backend.terms.get(self)
        if found is None:
            found = backend.remember_terms(self, self._terms(backend))
        return found

    def _terms(self, backend: Backend) -> Terms:
        settings, own = get_settings(), self.on_unavailable
        return Terms(
            self.mode,
            max(settings.lease_ms, self.at_least_ms) if self.lease_ms is UNSET else self.lease_ms,
            backend=backend,
            wait=settings.wait if self.wait is UNSET else self.wait,
            renews=self.renews,
            replicas=backend.replicas(self.replicas),
            patience=settings.deadlock_timeout,
            label=self.label,
            template=self.template,
            shown_mode=self.shown_mode,
            crash_release=self.crash_release,
            guarded=self.scope.guarded,
            max_hold=self.max_hold,
            at_least_ms=self.at_least_ms,
            max_waiting=self.max_waiting,
            proceeds=(settings.on_unavailable if own is UNSET else own) == "proceed",
        )


varied = lru_cache(maxsize=_MOST)(replace)
"""Returns the options with others in place of some of theirs, by name."""


def remembered(function: Callable[P, T], *, what: str) -> Callable[P, T]:
    """Call a function once for all calls with the same arguments.

    Users call these the arguments of `what`.
    """
    # `typed`, as True and 1.0 are equal to 1.
    kept: Any = lru_cache(maxsize=_MOST, typed=True)(function)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return kept(*args, **kwargs)  # type: ignore[no-any-return]
        except TypeError:
            pass  # one of them is wrong, or at least cannot be looked up
        refuse_unknown(kwargs, signature(function).parameters, what)
        return function(*args, **kwargs)

    return call


@partial(remembered, what="a lock")
def options_of(
    *,
    mode: Mode = "exclusive",
    wait: float | Unset | None = UNSET,
    lease: float | Unset = UNSET,
    renew: bool | Unset = UNSET,
    using: str | None = None,
    label: str | None = None,
    scope: ScopeName = "auto",
    database: str | None = None,
    commit_guard: bool = True,
    reentrant: Reentrant = True,
    crash_release: bool = False,
    replicas: int | Unset = UNSET,
    max_hold: float | Unset = UNSET,
    on_unavailable: OnUnavailable | Unset = UNSET,
    at_least: float = 0,
    max_waiting: int | None = None,
) -> Options:
    """Return the options of a lock, checked.

    Locks are often described where they are used, each time: only the first pays for the checks.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
    """
    known = validate_mode(mode)
    own_lease_ms = lease if lease is UNSET else lease_ms(lease)
    return Options(
        mode=known,
        wait=wait if wait is UNSET else wait_seconds(wait),
        lease_ms=own_lease_ms,
        renew=renew if renew is UNSET else flag(renew, "renew"),
        using=optional_text(using, "using"),
        label=optional_text(label, "label"),
        scope=Scope(scope, database, commit_guard),
        reentrant=checked_reentrant(reentrant),
        crash_release=checked_crash_release(crash_release, known),
        replicas=checked_replicas(replicas),
        max_hold=None if max_hold is UNSET else span_seconds(max_hold, argument="max_hold"),
        on_unavailable=checked_on_unavailable(on_unavailable),
        at_least_ms=checked_at_least(at_least, known, own_lease_ms, crash_release=crash_release),
        max_waiting=checked_max_waiting(max_waiting, wait),
    )


def checked_at_least(
    value: object, mode: str, own_lease_ms: int | Unset, *, crash_release: bool
) -> int:
    """Return how long a name stays closed after a grant, in ms; raises TypeError, ValueError."""
    number = seconds(value, argument="at_least")
    if number == 0:
        return 0
    milliseconds = lease_ms(number, argument="at_least")
    wrong = ""
    if mode != "exclusive":
        wrong = f"is for exclusive locks; with mode={mode!r} leave it out"
    elif crash_release:
        wrong = (
            "keeps the name closed after a crash, and crash_release opens it: leave one of them out"
        )
    elif own_lease_ms is not UNSET and own_lease_ms < milliseconds:
        wrong = (
            f"is longer than lease={own_lease_ms / 1000:g}, after which a crash opens the name: "
            "leave lease out"
        )
    if wrong:
        msg = f"at_least={value!r} {wrong}"
        raise ValueError(msg)
    return milliseconds


def checked_max_waiting(value: object, wait: object) -> int | None:
    """Return how many may wait; None: any number. Raises TypeError, ValueError."""
    if value is None:
        return None
    if value == 0 and type(value) is int:
        msg = "max_waiting must be 1 or more, not 0: give wait=0 if nobody is to wait"
        raise ValueError(msg)
    if wait == 0:
        msg = (
            f"max_waiting={value!r} bounds the queue, and with wait=0 nobody joins it: leave one "
            "of them out"
        )
        raise ValueError(msg)
    return whole_number(1, MOST_WAITING)(value, "max_waiting")


def checked_reentrant(value: object) -> Reentrant:
    """Return `value` if it is True, False or "thread"; raises TypeError, ValueError."""
    if isinstance(value, bool) or value == "thread":
        return value
    msg = f"reentrant must be True, False or 'thread', not {value!r}"
    raise ValueError(msg) if isinstance(value, str) else TypeError(msg)


def checked_crash_release(value: object, mode: str) -> bool:
    """Return `value` if it is True or False, and False unless `mode` is exclusive.

    Raises TypeError, ValueError.
    """
    crash_release = flag(value, "crash_release")
    if crash_release and mode != "exclusive":
        msg = (
            f"crash_release is for exclusive locks; with mode={mode!r} leave it out and use a "
            "short lease"
        )
        raise ValueError(msg)
    return crash_release


def checked_replicas(value: object) -> int | Unset:
    """Return `value` if it is a number of replicas, or not given; raises TypeError, ValueError."""
    return UNSET if value is UNSET else whole_number(0, MAX_REPLICAS)(value, "replicas")


def checked_on_unavailable(value: object) -> OnUnavailable | Unset:
    """Return `value` if it is in `OnUnavailable`, or not given; raises TypeError, ValueError."""
    if value is UNSET:
        return UNSET
    known: Any = one_of(*get_args(OnUnavailable))(value, "on_unavailable")
    return known  # type: ignore[no-any-return]


def validate_mode(mode: object) -> Mode:
    """Return `mode` if it is "exclusive" or "shared"; raises ValueError or TypeError."""
    if mode == "exclusive" or mode == "shared":  # noqa: PLR1714 - mypy narrows this way only
        return mode
    msg = f'mode must be "exclusive" or "shared", not {mode!r}'
    raise ValueError(msg) if isinstance(mode, str) else TypeError(msg)
