"""What a page shows of the locks at one moment: in the page itself, and as news for its script."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.core.paginator import Page, Paginator

from redis_locks import statistics
from redis_locks.admin.paths import ServerPages
from redis_locks.admin.screens import Piece, Screen
from redis_locks.admin.table_rows import (
    GroupRow,
    HolderRow,
    LockRow,
    PartyRow,
    SessionRow,
    StoryPart,
    case_text,
    event_row,
    past_hold_row,
)
from redis_locks.admin.timeline import MOST_WAITS, SPANS, USUAL_SPAN, Span, timeline
from redis_locks.conf.settings import get_settings
from redis_locks.connections.backends import backend_for
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.filters import Filter, Search
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.story import longest, surroundings, tell
from redis_locks.statistics import PastHold
from redis_locks.statistics.usual import Usual

PARTIES_A_PAGE = 25
"""How many holders and waiters a page of a lock shows."""

PAST_A_PAGE = 20
"""How many past holds a page of a lock shows."""

MOST_EVENTS = 10
"""How many events a lock's page shows before it is asked for more."""


def list_screen(
    result: Search,
    page: Page[Summary],
    strip: Piece,
    pages: ServerPages,
    matching: Filter,
    order: str,
    bulk_url: str,
    group: Sequence[GroupRow] | None,
) -> Screen:
    """Return the screen of one page of locks that were found, or of groups of locks."""
    rows = [
        LockRow.of(lock, result.recent.usual(lock.name), pages, result.states.get(lock.name))
        for lock in result.details(page)
    ]
    kind, listed = ("row", rows) if group is None else ("group_row", group)
    pieces = [Piece(kind, context={"row": row}) for row in listed]
    common = {
        "matched": len(result),
        "filter": matching,
        "filtered": matching != Filter(),
        "order": order,
        "grouped": group is not None,
        "bulk_url": bulk_url,
        "server": backend_for(pages.using).description,
    }
    there, whole = result.survey.total, result.complete
    frame = (bool(pieces), bool(there), matching, order, group is not None)
    return Screen(
        now=result.survey.now,
        parts=(
            strip,
            Piece(
                "filters",
                context={
                    **common,
                    "there": there,
                    "whole": whole,
                    "read": len(result.survey.locks),
                },
            ),
            Piece("results", frame, common | {"filled": bool(pieces), "there": there}),
            Piece("pages", context={"page": page}),
        ),
        rows=pieces,
    )


@dataclass(frozen=True, slots=True)
class LockView:
    """What of a lock its page shows, as the page's address says.

    Attributes:
        parties: Which page of its holders and waiters.
        past: Which page of its past holds.
        span: How far back its chart and its past holds go.
    """

    parties: int
    past: int
    span: Span

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> LockView:
        """Return the view of an address's query; what is wrong there is as good as missing."""
        span = SPANS.get(asked.get("span", ""), USUAL_SPAN)
        return cls(page_number(asked.get("p", "")), page_number(asked.get("past", "")), span)


def page_number(written: str) -> int:
    """Return the number of a page from an address; 1 if it is none."""
    return max(1, int(written)) if written.isdecimal() and len(written) < 10 else 1  # noqa: PLR2004


def lock_screen(
    lock: LockInfo, pages: ServerPages, may: Mapping[str, bool], view: LockView
) -> Screen:
    """Return the screen of one lock; blocks for some round trips if somebody waits for it.

    Args:
        lock: What is known of it.
        pages: The server, and where its pages are.
        may: What the user may end, as "may_release" and "may_cancel".
        view: What of it to show.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    name, at, using = lock.name, lock.at, pages.using
    around = surroundings(lock, using=using)
    story = tell(lock, around)
    tree = [SessionRow.of(root, at, pages) for root in around.roots]
    holder = longest(lock) if lock.holders else None
    spans = [StoryPart.of(span, at) for span in story.facts]
    mode = ", ".join(lock.modes)
    head = {
        # As JSON, which has escapes for all that could mislead a reader.
        "copy_name": json.dumps(name),
        "copy_command": json.dumps(pages.command("show", name)),
        "story": story,
        "case": case_text(story.case),
        "spans": spans,
        "held": holder is not None,
        "fencing_token": str(holder.fencing_token) if holder else "",
        "release_url": pages.url("release", name),
        "log_url": pages.url("history", name),
        **may,
    }
    parties = _parties(lock)
    # Only these become rows: a thousand may wait, and the page asks every two seconds.
    shown = Paginator(parties, PARTIES_A_PAGE).get_page(view.parties)
    rows = [_row(*each, lock, may, pages) for each in shown]
    listed = {
        "filled": bool(rows),
        "holding": lock.holding,
        "waiting": lock.waiting,
        "left_out": lock.holding + lock.waiting - len(parties),
        "acts": any(may.values()),
        "page": shown,
    }
    branches = any(root.branches for root in tree)
    noted = statistics.events(name, using=using)
    events = [event_row(event) for event in noted]
    holding = [holder.token for holder in lock.holders]
    queueing = [waiter.token for waiter in lock.waiters[:MOST_WAITS]]
    keeping = get_settings().statistics and get_settings().history > 0
    past = statistics.holds(name, using=using) if keeping else []
    chart = timeline(lock, past, noted, span=view.span, usual=around.usual)
    return Screen(
        now=at,
        parts=(
            Piece(
                "story", (story.case, mode, sorted(may.items()), head["fencing_token"], spans), head
            ),
            Piece(
                "timeline",
                (
                    view.span,
                    [hold.ended for hold in past],
                    [bar.is_long for bar in chart.bars],
                    noted,
                    sorted(holding),
                    queueing,
                    keeping,
                ),
                {"timeline": chart, "choices": tuple(SPANS.values()), "keeping": keeping},
            ),
            _past_part(at, past, around.usual, view, keeping=keeping),
            Piece("parties", context=listed),
            Piece(
                "blocking",
                context={
                    "tree": tree if branches else (),
                    "whole": around.whole,
                    "waits": bool(tree),
                },
            ),
            Piece(
                "events",
                context={
                    "events": events[:MOST_EVENTS],
                    "more_events": events[MOST_EVENTS:],
                    "counting": get_settings().statistics,
                },
            ),
        ),
        rows=rows,
    )


def _past_part(
    at: float, past: Sequence[PastHold], usual: Usual | None, view: LockView, *, keeping: bool
) -> Piece:
    """Return a page of the holds that ended in the time that the chart shows, latest first."""
    ended = [hold for hold in past if hold.ended > at - view.span.seconds]
    shown = Paginator(ended, PAST_A_PAGE).get_page(view.past)
    context = {
        "past": [past_hold_row(hold, usual) for hold in shown],
        "ended": len(ended),
        "earlier": len(past) - len(ended),
        "kept": get_settings().history if len(past) >= get_settings().history else 0,
        "past_number": shown.number,
        "past_pages": shown.paginator.num_pages,
        "past_span": view.span,
        "past_keeping": keeping,
    }
    return Piece("past", context=context)


def _parties(lock: LockInfo) -> list[tuple[HolderInfo | WaiterInfo, int]]:
    """Return the holders, longest first, and then the waiters, with their places in the queue.

    A holder's place is 0.
    """
    holders = sorted(lock.holders, key=lambda holder: -holder.held_for)
    waiters = enumerate(lock.waiters, 1)
    return [*((holder, 0) for holder in holders), *((waiter, place) for place, waiter in waiters)]


def _row(
    party: HolderInfo | WaiterInfo,
    place: int,
    lock: LockInfo,
    may: Mapping[str, bool],
    pages: ServerPages,
) -> Piece:
    """Return a holder, or the waiter in this place of the queue, as a row of their table."""
    acts = any(may.values())
    if isinstance(party, HolderInfo):
        held = HolderRow.of(party, lock.at, pages)
        url = pages.url("release", lock.name, party=held.party.mark) if may["may_release"] else ""
        return Piece("holder_row", context={"holder": held, "url": url, "acts": acts})
    waiter = PartyRow.of(party, lock.at, pages)
    url = pages.url("cancel", lock.name, party=waiter.mark) if may["may_cancel"] else ""
    context = {"waiter": waiter, "place": place, "url": url, "acts": acts}
    return Piece("waiter_row", context=context)
