"""The code of the strategies, as it runs, highlighted for the page."""

from __future__ import annotations

import inspect
import textwrap
from functools import cache

from django.utils.safestring import SafeString
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.python import PythonLexer
from pygments.lexers.scripting import LuaLexer

from .strategies import STRATEGIES, Strategy


@cache
def code_of(name: str) -> tuple[SafeString, ...]:
    """The code that a strategy shows, in HTML with CSS classes, which a strict policy allows."""
    return tuple(_highlighted(piece) for piece in STRATEGIES[name].shown)


def _highlighted(piece: object) -> SafeString:
    lua = isinstance(piece, str)
    text = piece if isinstance(piece, str) else inspect.getsource(piece)  # type: ignore[arg-type]
    # nowrap: the template gives the element, which can be scrolled with the keyboard.
    formatter = HtmlFormatter(nowrap=True, classprefix="hl-")
    html = highlight(textwrap.dedent(text).strip(), LuaLexer() if lua else PythonLexer(), formatter)
    return SafeString(html)  # Pygments has escaped it


def strategies_shown() -> list[dict[str, object]]:
    """What the page says of each strategy."""
    return [_shown(strategy) for strategy in STRATEGIES.values()]


def _shown(strategy: Strategy) -> dict[str, object]:
    return {
        "name": strategy.name,
        "label": strategy.label,
        "text": strategy.text,
        "kind": strategy.kind.value,
        "unavailable": strategy.unavailable(),
        "code": code_of(strategy.name),
    }
