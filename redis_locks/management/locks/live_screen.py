"""The screen of `manage.py locks watch`: the list, one lock, what its keys do, and its news."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import terminal_size
from typing import NamedTuple

from redis_locks import inspection
from redis_locks.connections.backends import backend_for
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection import HolderInfo, LockInfo
from redis_locks.inspection.filters import Search, search
from redis_locks.inspection.headline import headline
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.snapshots import free_lock
from redis_locks.inspection.story import Surroundings, longest, surroundings, tell
from redis_locks.inspection.time_limit import require_answer
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.list import Selection
from redis_locks.management.locks.show import lines
from redis_locks.management.locks.table import table
from redis_locks.management.locks.verb import ANSWERS_WITHIN
from redis_locks.values.text import duration, pad, printable, shorten, width, wrapped

_REVERSE, _PLAIN = "\x1b[7m", "\x1b[0m"
_ABOVE, _BELOW = 3, 1
"""Lines above the rows: figures, a note, a header. Below them: the keys."""

_MOST_SAID = 3
"""Lines of the headline."""

_LIST_KEYS = ("q quit", "enter open", "f force-release", "/ filter", "j k choose")
_LOCK_KEYS = ("q quit", "esc back", "f force-release", "j k scroll")
"""What they do, the most needed first: those that find room are shown."""

_SLOWEST = 30.0
"""Seconds between two tries, at most, while the server cannot be asked."""


class Look(NamedTuple):
    """What was read for one state of the screen.

    `opened` is the lock that it shows, or None for the list.
    """

    opened: str | None
    found: Search | None
    locks: Mapping[str, LockInfo]
    lock: LockInfo | None
    around: Surroundings | None


@dataclass(frozen=True, slots=True)
class News:
    """What was known last.

    Attributes:
        value: What was read last; None: nothing yet.
        at: When, by `monotonic`.
        error: Why the latest try has failed; empty: it has not.
        next_try: When the next one begins.
    """

    value: Look | None = None
    at: float = 0.0
    error: str = ""
    next_try: float = 0.0

    @property
    def age(self) -> float:
        """Seconds since it was read."""
        return time.monotonic() - self.at


class Feed:
    """Calls `read` in a thread of its own, so keys are heard while the server is not.

    It does so every `interval` seconds, and less often while the server cannot be asked.
    """

    def __init__(self, read: Callable[[], Look], interval: float) -> None:
        self._read, self._interval = read, interval
        self._news = News()
        self._fault: BaseException | None = None
        self._hurry = threading.Event()
        self._closed = False
        threading.Thread(target=self._run, name="redis_locks-watch", daemon=True).start()

    @property
    def news(self) -> News:
        """What was known last.

        Raises:
            Exception: Whatever `read` raised that waiting does not mend.
        """
        if self._fault is not None:
            raise self._fault
        return self._news

    def hurry(self) -> None:
        """Read at once: something else is wanted."""
        self._hurry.set()

    def close(self) -> None:
        """End the thread once what it asks is answered; does not wait for that."""
        self._closed = True
        self._hurry.set()

    def _run(self) -> None:
        failures = 0
        while not self._closed:
            self._hurry.clear()
            try:
                value = self._read()
            except LockBackendError as error:
                failures += 1
                pause = min(_SLOWEST, self._interval * 2 ** min(failures, 8))
                next_try = time.monotonic() + pause
                self._news = replace(self._news, error=str(error), next_try=next_try)
            except BaseException as error:  # noqa: BLE001 - `news` raises it where somebody sees it
                self._fault = error
                return
            else:
                failures, pause = 0, self._interval
                self._news = News(value, time.monotonic())
            self._hurry.wait(pause)


class LiveScreen:
    """What is on the screen, as frames, and what each key changes.

    `read` is for a thread of its own.
    """

    def __init__(self, console: Console, using: str | None, chosen: Selection) -> None:
        self._style, self._using, self._chosen = console.style, using, chosen
        self._server = printable(backend_for(using).description)
        self._filter = ""
        self._names: Sequence[str] = ()
        self._marked: str | None = None
        self._place = self._top = self._scrolled = 0
        self._rows = 20
        self._opened: str | None = None
        self._is_typing = False
        self.to_release: str | None = None
        """The lock that the last key asks to release."""

    def read(self) -> Look:
        """Read what the screen shows; blocks.

        Raises:
            LockBackendError: Redis could not be asked.
        """
        require_answer(self._using, ANSWERS_WITHIN)
        opened = self._opened
        if opened is not None:
            lock = inspection.lock(opened, using=self._using)
            around = surroundings(lock, using=self._using) if lock else None
            return Look(opened, None, {}, lock, around)
        matching = replace(self._chosen.matching, text=self._filter)
        limit, last = self._chosen.limit, self._top + self._rows
        if limit is not None:
            last = min(last, limit)
        result = search(matching, order=self._chosen.sort, using=self._using, least=limit or 0)
        part = result.details(result.found[self._top : last])
        return Look(None, result, {lock.name: lock for lock in part}, None, None)

    def press(self, key: str) -> bool:
        """Do what a key does, and return whether to go on."""
        self.to_release = None
        if self._is_typing:
            self._type(key)
            return True
        if key in {"escape", "backspace"}:
            self._go_back()
        elif key == "f":
            self.to_release = self._opened or self._name
        elif self._opened is not None:
            self._scrolled = max(0, self._scrolled + self._step(key))
        elif key == "enter" and self._name is not None:
            self._opened, self._marked, self._scrolled = self._name, self._name, 0
        elif key == "/":
            self._is_typing = True
        else:
            self._move(self._step(key))
        return key != "q"

    def frame(self, news: News, size: terminal_size) -> list[str]:
        """Return the lines of the screen, none longer than it, and no more than it has."""
        self._rows = max(1, size.lines - _ABOVE - _BELOW)
        look = news.value
        if look is not None and look.opened != self._opened:
            look = None  # of before the last key
        # While the server cannot be asked, nobody knows whether what is shown goes on.
        later = 0.0 if news.error else news.age
        if look is None:
            body = ["", "" if news.error else "Reading …"]
        elif look.opened is not None:
            body = self._lock(look, later, size)
        else:
            body = self._list(look, later, size)
        above = [self._head(look, size.columns), *self._note(news, size.columns)]
        body = body[: max(0, size.lines - len(above) - _BELOW)]
        empty = [""] * (size.lines - len(above) - len(body) - _BELOW)
        return [*above, *body, *empty, self._bottom(size.columns)][-size.lines :]

    @property
    def wanted(self) -> object:
        """What is to be read; another one than before is to be read at once."""
        return self._opened, self._filter, self._top, self._rows

    @property
    def _name(self) -> str | None:
        return self._names[self._place] if self._place < len(self._names) else None

    def _step(self, key: str) -> int:
        far = 10**9
        steps = {
            **dict.fromkeys(("j", "down"), 1),
            **dict.fromkeys(("k", "up"), -1),
            **dict.fromkeys((" ", "page down"), self._rows),
            "page up": -self._rows,
            **dict.fromkeys(("g", "home"), -far),
            **dict.fromkeys(("G", "end"), far),
        }
        return steps.get(key, 0)

    def _move(self, by: int) -> None:
        if by and self._names:
            self._place = min(len(self._names) - 1, max(0, self._place + by))
            # From here on the mark stays with this lock, wherever that goes.
            self._marked = self._name

    def _go_back(self) -> None:
        if self._opened is not None:
            self._opened = None
        else:
            self._filter = ""

    def _type(self, key: str) -> None:
        """Change the filter by a key that types or deletes; others change nothing."""
        if key == "backspace":
            self._filter = self._filter[:-1]
        elif key == "escape":
            self._filter = ""
        elif len(key) == 1 and key.isprintable():
            self._filter += key
        self._is_typing = key not in {"enter", "escape"}

    def _head(self, look: Look | None, columns: int) -> str:
        parts = [time.strftime("%H:%M:%S")]
        if look is not None and look.found is not None:
            matches, survey = look.found.found, look.found.survey
            count = _counted(len(matches))
            if not look.found.complete:
                count = f"{len(matches):,} of {_counted(survey.total)}"
            parts.append(count)
        # The figures stay whole.
        text = "  ".join(parts)
        room = columns - width(text) - 2
        return f"{text}  {shorten(self._server, room)}" if room > 1 else shorten(text, columns)

    def _note(self, news: News, columns: int) -> list[str]:
        if news.error:
            left = max(0, round(news.next_try - time.monotonic()))
            when = f"Next try in {left} s." if left else "Trying."
            if news.value is not None:
                when = f"This is from {duration(news.age)} ago. {when}"
            words = textwrap.wrap(f"{printable(news.error)} {when}", columns)
            return [self._style.ERROR(line) for line in words]
        said = f"Filter: {printable(self._filter)}" if self._filter else ""
        return [self._style.WARNING(line) for line in textwrap.wrap(said, columns)] or [""]

    def _bottom(self, columns: int) -> str:
        if not self._is_typing:
            return _fitting(_LIST_KEYS if self._opened is None else _LOCK_KEYS, columns)
        asked, typed = "Filter by name, host or label: ", printable(self._filter)
        # The end, where the user types, must be seen.
        room = max(1, columns - len(asked) - 1)
        typed = typed if len(typed) <= room else f"…{typed[1 - room :]}" if room > 1 else ""
        return shorten(f"{asked}{typed}", columns - 1) + f"{_REVERSE} {_PLAIN}"

    def _list(self, look: Look, later: float, size: terminal_size) -> list[str]:
        result = look.found
        if result is None or not result.found:
            there = 0 if result is None else result.survey.total
            self._names = ()
            return [
                "",
                f"None of {_counted(there)} matches."
                if there
                else "No lock is held or waited for.",
            ]
        said = " ".join(sentence.text(later) for sentence in headline(result))
        above = wrapped(said, size.columns)[:_MOST_SAID]
        self._rows = max(1, self._rows - len(above))
        known = {lock.name: lock for lock in result.found[: self._chosen.limit]}
        self._names = list(known)
        if self._marked in known:
            self._place = self._names.index(self._marked)
        self._place = min(self._place, len(self._names) - 1)
        self._top = min(self._place, max(self._top, self._place - self._rows + 1))
        self._top = max(0, min(self._top, len(self._names) - self._rows))
        window = self._names[self._top : self._top + self._rows]
        # Those that have scrolled into view are read next; until then their summaries do.
        rows = [_later(look.locks.get(name) or _brief(known[name]), later) for name in window]
        header, *texts = table(
            [_one_line(row) for row in rows], size.columns, result.recent, result.states
        )
        header = self._style.MIGRATE_LABEL(shorten(header, size.columns))
        marked = self._place - self._top
        painted = []
        for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
            line = shorten(text, size.columns)
            if place == marked:
                painted.append(_REVERSE + pad(line, size.columns) + _PLAIN)
            else:
                painted.append(self._painted(row, line, result))
        return [*above, header, *painted]

    def _painted(self, row: LockInfo, line: str, result: Search) -> str:
        if result.states[row.name].rank == 0:
            return self._style.ERROR(line)
        return self._style.WARNING(line) if row.waiting else line

    def _lock(self, look: Look, later: float, size: terminal_size) -> list[str]:
        name, columns = printable(look.opened or ""), size.columns
        if look.lock is None or look.around is None:
            return [*textwrap.wrap(f"Lock {name}", columns), "", tell(free_lock(name)).text]
        lock = _later(look.lock, later)
        story = tell(lock, look.around)
        body = [shorten(line, columns) for line in lines(lock, columns, story, len(lock.waiters))]
        self._scrolled = max(0, min(self._scrolled, len(body) - self._rows))
        return body[self._scrolled :]


def _fitting(texts: Sequence[str], columns: int) -> str:
    line = ""
    for text in texts:
        longer = f"{line}   {text}" if line else text
        if width(longer) > columns:
            break
        line = longer
    return line


def _counted(number: int) -> str:
    return "1 lock" if number == 1 else f"{number:,} locks"


def _one_line(lock: LockInfo) -> LockInfo:
    """Return the lock with its longest hold only, and the number of the others.

    That stands at the end, where it is not cut.
    """
    if len(lock.holders) < 2:  # noqa: PLR2004 - one hold is one line
        return lock
    holder = longest(lock)
    label = f"{holder.label} +{lock.holding - 1}"
    return replace(lock, holders=(replace(holder, label=label),), holding=1)


def _brief(lock: Summary) -> LockInfo:
    """Return what a summary says of a lock."""
    holders = tuple(
        HolderInfo("", 0, lock.held_for, lock.lease_left, "exclusive", *who, lock.lease, lock.name)
        for who in lock.holders[:1]
    )
    return LockInfo(lock.name, "exclusive", holders, (), lock.waiting)


def _later(lock: LockInfo, seconds: float) -> LockInfo:
    """Return the lock as it is so many seconds later, if nothing happened to it.

    Its lease is renewed.
    """
    return replace(
        lock,
        holders=tuple(
            replace(holder, held_for=holder.held_for + seconds) for holder in lock.holders
        ),
        waiters=tuple(replace(waiter, waited=waiter.waited + seconds) for waiter in lock.waiters),
    )
