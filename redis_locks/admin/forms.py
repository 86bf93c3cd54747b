"""What people type in: which locks to list, and why a hold or a wait is ended."""

from __future__ import annotations

from django import forms

from redis_locks.inspection.filters import Filter


class FilterForm(forms.Form):
    """The filters of the list, by GET; a field that is wrong is as good as empty."""

    q = forms.CharField(label="Name", required=False)
    host = forms.CharField(label="Host", required=False)
    held = forms.FloatField(
        label="Held for at least (s)",
        required=False,
        min_value=0,
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
    )
    contended = forms.BooleanField(label="Only contended", required=False)

    template_name = "admin/redis_locks/lock/filter_fields.html"

    def filter(self) -> Filter:
        """Return the filter that the valid fields make."""
        self.full_clean()
        given = self.cleaned_data
        return Filter(
            name=given.get("q", ""),
            host=given.get("host", ""),
            held_for=given.get("held") or 0,
            contended=given.get("contended", False),
        )


class EndForm(forms.Form):
    """Why a hold or a wait is ended: the admin's log keeps it."""

    reason = forms.CharField(
        label="Reason",
        max_length=1000,
        help_text="Kept in the admin's log, with your name.",
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True}),
    )
