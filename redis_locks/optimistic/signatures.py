"""The signature of a transaction, without the pipeline, and the keys and names of its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from redis_locks.decorators.calls import NamesRenderer, for_calls_of, signature_of
from redis_locks.locks.data_commands import Command, checked_commands
from redis_locks.locks.reads import plain_reads
from redis_locks.values.keys import validate_name

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Watch = str | Iterable[str] | Callable[..., str | Iterable[str]]
"""Key templates, or a callable that gets the call's arguments and returns one key or several."""
Read = Iterable[Command] | Callable[..., Iterable[Command]]
"""Commands of templates, or a callable that gets the call's arguments and returns commands."""


def require_function(function: object) -> None:
    """Raise TypeError unless `function` can run as a transaction."""
    if inspect.isclass(function) or not callable(function):
        msg = f"optimistic runs a function whose first parameter is the pipeline, not {function!r}"
        raise TypeError(msg)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        msg = f"{label(function)} is a generator, which would run after the transaction has ended"
        raise TypeError(msg)


def without_pipeline(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature by which the transaction is called."""
    signature = signature_of(function)
    parameters = list(signature.parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in positional:
        msg = f"{label(function)} needs a first parameter, for the pipeline"
        raise TypeError(msg)
    if parameters[0].name in {"self", "cls"}:
        msg = (
            f"{label(function)} is a method, whose first parameter cannot be the pipeline: call "
            "optimistic.run(function, *keys) inside the method"
        )
        raise TypeError(msg)
    return signature.replace(parameters=parameters[1:])


def label(function: object) -> str:
    """Return the name of a function, for people."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    return f"{module}.{name}" if name else type(function).__qualname__


def text_of(
    transaction: Callable[..., Any], argument: str, source: object
) -> Callable[[Args, Kwargs], str] | None:
    """Return the function that makes a call's text from its arguments; None for None. Errors name the argument."""
    if source is None:
        return None
    render = _renderer(transaction, argument, source)

    def one(args: Args, kwargs: Kwargs) -> str:
        found = render(args, kwargs)
        if len(found) != 1:
            msg = f"{argument} must be one name, not {found!r}"
            raise TypeError(msg)
        return found[0]

    return one


def keys_of(
    transaction: Callable[..., Any], watch: Watch
) -> Callable[[Args, Kwargs], tuple[str, ...]]:
    """Return the function that makes the keys to watch from a call's arguments.

    Raises:
        TypeError: `watch` is neither a template, nor several, nor a callable.
        ValueError: It names no key, or a template is wrong.
    """
    if callable(watch):
        return lambda args, kwargs: _several(watch(*args, **kwargs))
    templates = _several(watch)
    if not templates:
        msg = "watch must name at least one key: without one, nothing is protected"
        raise ValueError(msg)
    return _renderer(transaction, "watch", *templates)


Reads = tuple[tuple[bytes | str, ...], ...]


def reads_of(transaction: Callable[..., Any], read: Read) -> Callable[[Args, Kwargs], Reads]:
    """Return the function that makes the commands which travel with the WATCH from a call's arguments.

    Raises:
        TypeError: `read` is neither a list of commands nor a callable.
        ValueError: A command is not one that only reads, or a template is wrong.
    """
    if callable(read):
        return lambda args, kwargs: plain_reads(read(*args, **kwargs))
    commands = plain_reads(checked_commands(read, "read"))
    words = [[_word_of(transaction, word) for word in command] for command in commands]
    if all(isinstance(word, str | bytes) for command in words for word in command):
        return lambda args, kwargs: commands  # noqa: ARG005 - the same for each call
    return lambda args, kwargs: tuple(
        tuple(word if isinstance(word, str | bytes) else word(args, kwargs)[0] for word in command)
        for command in words
    )


def _word_of(transaction: Callable[..., Any], word: bytes | str) -> bytes | str | NamesRenderer:
    if isinstance(word, str) and ("{" in word or "}" in word):
        return _renderer(transaction, "read", word)
    return word


def _renderer(transaction: Callable[..., Any], argument: str, *sources: object) -> NamesRenderer:
    try:
        return for_calls_of(transaction, *sources)
    except (TypeError, ValueError) as error:
        msg = f"{argument}: {error}"
        raise type(error)(msg) from None


def _several(keys: object) -> tuple[str, ...]:
    if isinstance(keys, str):
        return (keys,)
    if isinstance(keys, bytes) or not isinstance(keys, Iterable):
        msg = f"watch must be a key, several, or a callable that returns them, not {keys!r}"
        raise TypeError(msg)
    return tuple(validate_name(key, argument="a key to watch") for key in keys)
