"""What the script of the admin's pages says, in the user's language."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from redis_locks.inspection.localized_times import decimal_separator


def script_texts() -> dict[str, str]:
    """Return the texts by the names that ``locks.js`` knows. Placeholders are as in Python."""
    return {
        "live": pgettext("locks", "Live"),
        "stopped": _("Not updating"),
        "paused": pgettext("locks", "Paused"),
        "over": pgettext("locks", "Over"),
        "pause": _("Pause updates"),
        "resume": _("Resume updates"),
        "forbidden": _("You may no longer see this page."),
        "logged_out": _("You are logged out. Reload this page to log in again."),
        "unreachable": _("Redis could not answer."),
        "silent": _("This site does not answer."),
        "offline": _("Your browser has no network connection."),
        "known": _("This page shows what was known %(ago)s ago."),
        "stale": _("This page shows what was known %(ago)s ago. Next try in %(left)s s."),
        "trying": _("This page shows what was known %(ago)s ago. Trying…"),
        "next": _("Next try in %(left)s s."),
        "trying_first": pgettext("locks", "Trying…"),
        "copied": pgettext("locks", "Copied"),
        "cannot_copy": _("Cannot copy here"),
        "decimal": decimal_separator(),
    }
