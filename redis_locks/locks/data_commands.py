"""Redis commands as users write them, such as ``("HGET", "account:1", "money")``.

`read=` and `Hold.commit` take them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

_PLAIN: Final = (list, tuple)

Word = str | bytes | int | float
Command = Sequence[Word]


def checked_commands(commands: object, argument: str) -> Iterable[Any]:
    """Return the commands, each of which is for `words_of`.

    Raises TypeError if it is no list of commands.
    """
    # Lists and tuples first, as nearly all are: to ask an abstract class takes longer than all else
    # here.
    if isinstance(commands, _PLAIN):
        return commands
    if isinstance(commands, Iterable) and not isinstance(commands, (str, bytes)):
        return list(commands)
    msg = f'{argument} must be a list of commands such as ("GET", "key"), not {commands!r}'
    raise TypeError(msg)


def words_of(command: Any, argument: str) -> list[bytes | str]:
    """Return the words of a command as text or bytes: a name at least.

    Raises:
        TypeError: It is no list or tuple of words, or a word is no string, bytes or number.
    """
    if not command or not (
        isinstance(command, _PLAIN)
        or (isinstance(command, Sequence) and not isinstance(command, (str, bytes)))
    ):
        msg = f'{argument} must be a list of commands such as ("GET", "key"), not of {command!r}'
        raise TypeError(msg)
    return [word if type(word) is str else text_of(word, argument) for word in command]


def text_of(word: object, argument: str) -> bytes | str:
    """Return a word of a command as text or bytes.

    Raises TypeError if it is neither, and no number.
    """
    if type(word) is int:
        return str(word)
    # Not `str(word)`, which is another text for an Enum.
    if isinstance(word, str):
        return word[:]
    if isinstance(word, bytes):
        return word
    if not isinstance(word, (int, float)) or isinstance(word, bool):
        msg = f"a word of a command in {argument} must be a string, bytes or a number, not {word!r}"
        raise TypeError(msg)
    return int.__repr__(word) if isinstance(word, int) else float.__repr__(word)


def to_bytes(text: bytes | str) -> bytes:
    """Return text as it is sent."""
    return text.encode() if isinstance(text, str) else bytes(text)
