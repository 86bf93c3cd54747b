"""The signature of a transaction, without the pipeline, and the keys and names of its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from redis_locks.decorators.calls import NamesRenderer, for_calls_of, one_name_of, signature_of
from redis_locks.drivers.server_link import pack_words
from redis_locks.locks.data_commands import Command, checked_commands
from redis_locks.locks.reads import plain_reads
from redis_locks.optimistic.packets import bulk, watching
from redis_locks.optimistic.transaction import FirstPacket, Reads, checked_keys, names_of, tag_of
from redis_locks.values.keys import validate_name

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Watch = str | Iterable[str] | Callable[..., str | Iterable[str]]
"""Key templates, or a callable that gets the call's arguments and returns one key or several."""
Read = Iterable[Command] | Callable[..., Iterable[Command]]
"""Commands of templates, or a callable that gets the call's arguments and returns commands."""


_GENERATES = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def require_function(function: object) -> None:
    """Raise TypeError unless `function` can run as a transaction."""
    if isinstance(function, FunctionType) and not function.__code__.co_flags & _GENERATES:
        return  # as nearly all are
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
        raise TypeError(f"{label(function)} needs a first parameter, for the pipeline")
    if parameters[0].name in {"self", "cls"}:
        raise TypeError(
            f"{label(function)} is a method, whose first parameter cannot be the pipeline: call "
            "optimistic.run(function, watch=keys) inside the method"
        )
    return signature.replace(parameters=parameters[1:])


def label(function: object) -> str:
    """Return the name of a function, for people."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    return f"{module}.{name}" if name else type(function).__qualname__


def text_of(
    transaction: Callable[..., Any], argument: str, source: object
) -> Callable[[Args, Kwargs], str] | None:
    """Return the function that makes a call's text from its arguments; None for None.

    Errors name the argument.
    """
    if source is None:
        return None
    with _named(argument):
        return one_name_of(argument, transaction, source)


Keys = tuple[str, ...]
FirstPacketOf = Callable[[Args, Kwargs], FirstPacket]


def first_packet_of(
    transaction: Callable[..., Any], watch: Watch, read: Read
) -> FirstPacket | FirstPacketOf:
    """Return what makes a call's first packet from its arguments.

    If all calls have the same packet, return that.

    Raises:
        TypeError: `watch` is neither a template, nor several, nor a callable; or `read` no list of
            commands.
        ValueError: `watch` names no key, a command is not one that only reads, or a template is
            wrong.
    """
    if callable(watch) or callable(read):
        keys, reads = _keys_of(transaction, watch), _reads_of(transaction, read)
        return lambda args, kwargs: FirstPacket.of(keys(args, kwargs), reads(args, kwargs))
    watched = tuple(dict.fromkeys(_templates(watch)))
    commands = plain_reads(checked_commands(read, "read"))
    texts = _texts(transaction, watched, commands)
    first_packet = _filled_in(texts, len(watched), commands)
    return first_packet if any(map(_is_template, texts)) else first_packet((), {})


def _filled_in(texts: Texts, watched: int, commands: Reads) -> FirstPacketOf:
    """Return what makes a call's first packet of the first texts and of commands.

    The first texts are watched.
    """
    numbers = {text: number for number, text in enumerate(texts)}
    renderers, names = tuple(texts.values()), names_of(commands)
    watch = watching(watched + 1) + b"%b" * watched
    # A word without a template is in RESP already.
    reads, filled = b"", []
    for command in commands:
        reads += b"*%d\r\n" % len(command)
        for word in command:
            if word in numbers:
                filled.append(numbers[word])
                reads += b"%b"
            else:
                reads += pack_words((word,)).replace(b"%", b"%%")

    def first_packet(args: Args, kwargs: Kwargs) -> FirstPacket:
        filled_in = [render(args, kwargs)[0] for render in renderers]
        words = tuple(map(bulk, filled_in))
        keys = tuple(dict.fromkeys(filled_in[:watched]))
        commands = reads % tuple([words[number] for number in filled])
        return FirstPacket(keys, watch % words[:watched], commands, names, tag_of(keys))

    return first_packet


Texts = dict[bytes | str, NamesRenderer]
"""Templates, and what fills each in: once for a call, however often it stands there."""


def _texts(transaction: Callable[..., Any], watched: Keys, commands: Reads) -> Texts:
    texts: Texts = {text: _renderer(transaction, "watch", text) for text in watched}
    for word in (word for command in commands for word in command):
        if _is_template(word) and word not in texts:
            texts[word] = _renderer(transaction, "read", word)
    return texts


def _templates(watch: str | Iterable[str]) -> tuple[str, ...]:
    templates = several(watch)
    if not templates:
        raise ValueError("watch must name at least one key: without one, nothing is protected")
    return templates


def _keys_of(transaction: Callable[..., Any], watch: Watch) -> Callable[[Args, Kwargs], Keys]:
    if not callable(watch):
        return _renderer(transaction, "watch", *_templates(watch))

    def keys(args: Args, kwargs: Kwargs) -> Keys:
        return checked_keys(several(watch(*args, **kwargs)))

    return keys


def _reads_of(transaction: Callable[..., Any], read: Read) -> Callable[[Args, Kwargs], Reads]:
    if callable(read):
        return lambda args, kwargs: plain_reads(read(*args, **kwargs))
    commands = plain_reads(checked_commands(read, "read"))
    texts = _texts(transaction, (), commands)

    def reads(args: Args, kwargs: Kwargs) -> Reads:
        values = {text: render(args, kwargs)[0] for text, render in texts.items()}
        return tuple(tuple(values.get(word, word) for word in words) for words in commands)

    return reads


def _is_template(text: bytes | str) -> bool:
    return isinstance(text, str) and ("{" in text or "}" in text)


def _renderer(transaction: Callable[..., Any], argument: str, *sources: object) -> NamesRenderer:
    with _named(argument):
        return for_calls_of(transaction, *sources)


@contextmanager
def _named(argument: str) -> Iterator[None]:
    """Name the argument in an error about its templates."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {error}") from None


def several(keys: object) -> tuple[str, ...]:
    """Return the keys that `watch` names, one or several; raises TypeError, ValueError."""
    if isinstance(keys, str):
        return (keys,)
    if isinstance(keys, bytes) or not isinstance(keys, Iterable):
        msg = f"watch must be a key, several, or a callable that returns them, not {keys!r}"
        raise TypeError(msg)
    return tuple(validate_name(key, argument="a key to watch") for key in keys)
