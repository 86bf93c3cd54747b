"""The forms of the live bank: one transfer, and a race of many."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from django import forms

from demo_project.bank.strategies import label_of

from .customers import CUSTOMERS
from .money import cents_of
from .race import SLOW_EACH_WAY, SLOW_SECONDS

SAFE = ("redis_lock", "optimistic")
WARNING = "unprotected"
RACED = (*SAFE, WARNING)
"""The methods that race on the front page."""
LARGEST = Decimal(1_000_000)


def _accounts() -> list[tuple[str, str]]:
    return [(name, name) for name in CUSTOMERS]


def _strategies(*names: str) -> list[tuple[str, str]]:
    return [(name, label_of(name)) for name in names]


class _PaymentForm(forms.Form):
    """Sender, recipient and amount."""

    required_css_class = "required"

    sender = forms.ChoiceField(label="From", choices=_accounts, initial="alice")
    recipient = forms.ChoiceField(label="To", choices=_accounts, initial="bob")
    amount = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=LARGEST, max_digits=9, decimal_places=2, initial="1.00"
    )

    def clean(self) -> dict[str, Any]:
        """Refuse a transfer to the sender."""
        data = super().clean() or {}
        if data.get("sender") and data["sender"] == data.get("recipient"):
            self.add_error(
                "recipient", "Sender and recipient are the same account; choose another one."
            )
        return data

    @property
    def accounts(self) -> tuple[str, str]:
        """Sender and recipient of valid input."""
        return self.cleaned_data["sender"], self.cleaned_data["recipient"]

    @property
    def cents(self) -> int:
        """The amount of valid input."""
        return cents_of(self.cleaned_data["amount"])


class TransferForm(_PaymentForm):
    """One transfer. Sent twice, by a double click or a reload, it moves money once."""

    prefix = "transfer"

    strategy = forms.ChoiceField(
        label="Method", choices=_strategies(*SAFE), initial=SAFE[0], widget=forms.RadioSelect
    )
    operation_id = forms.UUIDField(initial=uuid.uuid4, widget=forms.HiddenInput)


class RaceForm(_PaymentForm):
    """Many transfers each way; also without any lock, to see what that does, and slowly."""

    prefix = "race"

    strategy = forms.ChoiceField(
        label="Method",
        choices=_strategies(*RACED),
        initial=SAFE[0],
        widget=forms.RadioSelect,
    )
    slow_motion = forms.BooleanField(
        label="Slow motion",
        required=False,
        help_text=f"{2 * SLOW_EACH_WAY} transfers that take {SLOW_SECONDS:.0f} s each, so that "
        "there is a queue to look at.",
    )
