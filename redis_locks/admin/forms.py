"""What people type in: which locks to list, and why a hold or a wait is ended."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from redis_locks.inspection.filters import Filter


class FilterForm(forms.Form):
    """The filters of the list, by GET; a field that is wrong is as good as empty.

    Chips and the search set them.
    """

    q = forms.CharField(required=False)
    host = forms.CharField(required=False)
    held = forms.FloatField(required=False, min_value=0)
    waited = forms.FloatField(required=False, min_value=0)
    contended = forms.BooleanField(required=False)
    stale = forms.BooleanField(required=False)
    gone = forms.BooleanField(required=False)
    group = forms.BooleanField(required=False)

    def filter(self) -> Filter:
        """Return the filter that the valid fields make."""
        self.full_clean()
        given = self.cleaned_data
        return Filter(
            text=given.get("q", ""),
            host=given.get("host", ""),
            held_for=given.get("held") or 0,
            waited=given.get("waited") or 0,
            contended=given.get("contended", False),
            stale=given.get("stale", False),
            gone=given.get("gone", False),
        )

    @property
    def grouped(self) -> bool:
        """Whether to show groups of locks; after `filter`."""
        return bool(self.cleaned_data.get("group"))


class EndForm(forms.Form):
    """Why a hold or a wait is ended: the admin's log keeps it."""

    reason = forms.CharField(
        label=pgettext_lazy("locks", "Reason"),
        max_length=1000,
        help_text=_("Kept in the admin's log, with your name."),
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True}),
    )
