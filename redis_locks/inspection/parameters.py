"""Validate the arguments of the public functions.

Each error names the argument, its value and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from redis_locks.conf.name_function import server_name
from redis_locks.inspection.snapshots import WaiterInfo, session_of
from redis_locks.values.keys import validate_name

_SESSION = re.compile(r"[0-9A-Za-z]+")
_TOKEN = re.compile(rf"{_SESSION.pattern}\.[0-9a-f]+")


def validate_host(host: object) -> str:
    """Return the name of a host; raises TypeError or ValueError."""
    return _text(host, "host", "`parties().hosts` are those that hold or wait")


def validate_session(session: object) -> str:
    """Return a session, given one or a token of one; raises TypeError or ValueError."""
    fix = "use .session of a waiter or holder"
    text = _text(session, "session", fix)
    if not (_SESSION.fullmatch(text) or _TOKEN.fullmatch(text)):
        raise ValueError(f"session {text!r} is neither a session nor a token of one; {fix}")
    return session_of(text)


def validate_tokens(tokens: object) -> tuple[str, ...]:
    """Return the tokens of holds, each once; raises TypeError or ValueError."""
    fix = "use .token of `lock(name).holders`"
    each = _each(tokens, "tokens", fix)
    return tuple(dict.fromkeys(_token(token, "each of tokens", fix) for token in each))


def validate_waiter(waiter: object) -> WaiterInfo:
    """Return the waiter; raises TypeError or ValueError."""
    fix = "use one of `parties().waiters` or `lock(name).waiters`"
    if not isinstance(waiter, WaiterInfo):
        msg = f"waiter must be a WaiterInfo, not {waiter!r} ({type(waiter).__name__}); {fix}"
        raise TypeError(msg)
    _token(waiter.token, "waiter.token", fix)
    validate_name(waiter.lock, argument="waiter.lock")
    return waiter


def validate_listed(names: object) -> Sequence[str] | None:
    """Return the names of locks; None if None is given. Raises TypeError.

    A text that cannot name a lock is accepted, and not found: names may come from a server to which
    other programs write.
    """
    if names is None:
        return None
    fix = "give a list of names"
    return tuple(_known(_string(name, "each of names", fix)) for name in _each(names, "names", fix))


def _known(name: str) -> str:
    with suppress(ValueError):
        return server_name(validate_name(name))
    return name


def _each(values: object, argument: str, fix: str) -> Iterable[object]:
    # A string is iterable too, as its letters.
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        msg = f"{argument} must be a list, not {values!r} ({type(values).__name__}); {fix}"
        raise TypeError(msg)
    return values


def _string(value: object, argument: str, fix: str) -> str:
    if not isinstance(value, str):
        msg = f"{argument} must be a string, not {value!r} ({type(value).__name__}); {fix}"
        raise TypeError(msg)
    return value


def _text(value: object, argument: str, fix: str) -> str:
    text = _string(value, argument, fix)
    if not text:
        raise ValueError(f"{argument} must not be empty; {fix}")
    return text


def _token(value: object, argument: str, fix: str) -> str:
    text = _text(value, argument, fix)
    # Accept any other text: holds that other programs wrote must be ended, too.
    if text.split() != [text]:
        raise ValueError(f"{argument} must be a token, not {text!r}; {fix}")
    return text
