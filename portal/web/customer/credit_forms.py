"""The forms of the Credit page."""

import secrets
from typing import cast

from django import forms
from django.conf import settings
from django.http import QueryDict

from portal.billing import amount_fields
from portal.billing.amount_fields import AmountField
from portal.billing.models import AutoTopUp, CreditAlert, CustomerCard
from portal.billing.rules import topups as rules
from portal.billing.services import topup_guard
from portal.core import money
from portal.web import formats

_KEY_LENGTH = 16


def new_key() -> str:
    """Return a key that makes a second click on the same form the same purchase."""
    return secrets.token_urlsafe(_KEY_LENGTH)


class TopUpForm(forms.Form):
    """How much; the hidden key makes a second click the same purchase."""

    amount = AmountField(label="Amount")
    keep_card = forms.BooleanField(
        label="Keep the card for automatic top-ups",
        required=False,
        help_text="Nothing is charged on its own until an admin turns automatic top-ups on.",
    )
    client_key = forms.CharField(widget=forms.HiddenInput, max_length=80)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed on as they came
        least, most = _shown(topup_guard.least_minor()), _shown(rules.most_minor(settings.CURRENCY))
        self.fields[
            "amount"
        ].help_text = f"{least} to {most}. You pay on a page of Stripe; card details never reach this pool."


def _shown(minor: int) -> str:
    return formats.money(money.nano_from_minor(minor, settings.CURRENCY), currency=settings.CURRENCY)


class AutoTopUpForm(forms.Form):
    """When to charge which card for how much."""

    threshold = AmountField(label="When free credit falls below")
    amount = AmountField(label="Buy credit for")
    monthly_cap = AmountField(
        label="At most in a calendar month", help_text="Months in UTC. Automatic purchases alone count."
    )
    card = forms.ChoiceField()

    def __init__(self, data: QueryDict | None = None, *, cards: list[CustomerCard], plan: AutoTopUp | None) -> None:
        super().__init__(data, initial=_auto_initial(plan))
        choices = [(card.public_id, f"{card.brand.title()} ending in {card.last4}") for card in cards]
        cast("forms.ChoiceField", self.fields["card"]).choices = choices


def _auto_initial(plan: AutoTopUp | None) -> dict[str, str]:
    if plan is None:
        return {}
    return {
        "threshold": amount_fields.typed(plan.threshold_minor),
        "amount": amount_fields.typed(plan.amount_minor),
        "monthly_cap": amount_fields.typed(plan.monthly_cap_minor),
        "card": plan.card.public_id if plan.card else "",
    }


class AlertForm(forms.Form):
    """Below which credit the owners get an e-mail."""

    threshold = AmountField(
        label="Write to owners and admins when credit falls below",
        required=False,
        help_text="One message each time it does; at first a fifth of your first payment. Empty: none.",
    )

    def __init__(self, data: QueryDict | None = None, *, alert: CreditAlert | None) -> None:
        is_on = alert is not None and alert.is_on
        initial = {"threshold": money.decimal_text(alert.threshold_nano)} if alert is not None and is_on else {}
        super().__init__(data, initial=initial)
