"""A page that keeps itself up to date.

Its pieces, and the news of them for its script, ``locks.js``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.translation import get_language

from redis_locks.admin.table_rows import fingerprint

KNOWN = "X-Locks-Known"
"""The header in which a page's script says which pieces it has, by their states."""

FOLDER = "admin/redis_locks/lock"


@dataclass(frozen=True)
class Piece:
    """A part of a page, or a row of its table. It is rendered only for who does not have it.

    Attributes:
        name: The name of its template; of a part, also its place in the page.
        facts: What it shows, if that is less than the context. Times are points in time, so that
            they do not change by themselves.
        context: What the template needs.
        folder: Where its template is.
    """

    name: str
    facts: object = None
    context: Mapping[str, Any] = field(default_factory=dict)
    folder: str = FOLDER

    @cached_property
    def state(self) -> str:
        """Text that changes when the piece does, or the language in which it is told."""
        return fingerprint(self.name, self.facts or self.context, get_language())

    @property
    def template(self) -> str:
        """The path of its template."""
        return f"{self.folder}/{self.name}.html"


@dataclass(frozen=True)
class Screen:
    """What to show.

    Attributes:
        now: Seconds since 1970, by the clock that its times are of.
        parts: Its parts.
        rows: The rows of the one table of the page.
        over: Whether it will not change any more, so that its script need not ask again.
    """

    now: float
    parts: Sequence[Piece]
    rows: Sequence[Piece] = ()
    over: bool = False

    @cached_property
    def etag(self) -> str:
        """The states as an ETag; weak, as the page counts on its times by itself."""
        states = [piece.state for piece in (*self.parts, *self.rows)]
        return f'W/"{fingerprint(states, self.over)}"'

    @property
    def now_text(self) -> str:
        """Seconds since 1970 for the page's script, whatever the reader's separators."""
        return f"{self.now:.3f}"

    @property
    def context(self) -> dict[str, Any]:
        """What the page's own templates need: each part by its name, and what all of them need."""
        common: dict[str, Any] = {}
        for part in self.parts:
            common |= part.context
        return common | {"screen": self, "pieces": {part.name: part for part in self.parts}}

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the states as JSON, and the HTML of those pieces that the asker does not have.

        304 if it has all of them: `now` alone is no news.
        """
        if known := get_conditional_response(request, etag=self.etag):
            return known
        has = set(request.headers.get(KNOWN, "").split(","))
        html = {
            piece.state: render_to_string(
                piece.template, {**piece.context, "piece": piece, "alone": True}, request
            )
            for piece in (*self.parts, *self.rows)
            if piece.state not in has
        }
        news = {
            "now": self.now,
            "parts": {part.name: part.state for part in self.parts},
            "rows": [row.state for row in self.rows],
            "html": html,
            "over": self.over,
        }
        return JsonResponse(news, headers={"ETag": self.etag})
