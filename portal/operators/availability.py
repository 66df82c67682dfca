"""Operator pages: what machines are paid for standing ready. Route `operators:availability`."""

from datetime import datetime, timedelta

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.billing.rules.availability import HOUR, hour_of
from portal.billing.selectors import availability as selectors
from portal.billing.services import availability as services
from portal.catalog.selectors.shapes import gpu_kinds
from portal.core import clock
from portal.core.amount_field import AmountField
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.operators.access import OperatorRequest, operator_page

_MINUTES = 60
_DAYS = 30


class RateForm(forms.Form):
    """What a ready GPU is paid, and from which hour on."""

    gpu_kind = forms.ChoiceField(label="GPU", required=False)
    per_minute = AmountField(label="Per GPU and minute", help_text="Such as 0.0004; 0 ends it.")
    effective_from = MomentField(help_text="A full hour. Leave empty for the next one.")


def _form(request: OperatorRequest) -> RateForm:
    form = RateForm(request.POST if request.method == "POST" else None)
    choice = form.fields["gpu_kind"]
    if isinstance(choice, forms.ChoiceField):
        choice.choices = [
            ("", "All kinds without a rate of their own"),
            *((kind.name, kind.name) for kind in gpu_kinds()),
        ]
    return form


@operator_page
def availability(request: OperatorRequest) -> HttpResponse:
    """Show the rates and what was paid in 30 days; a POST sets a rate."""
    now = clock.now()
    form = _form(request)
    if request.method == "POST" and form.is_valid() and _set_rate(request, form, now):
        return redirect("operators:availability")
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    paid = list(selectors.paid_by_day(first=today - timedelta(days=_DAYS - 1), last=now))
    context = {
        "rates": [(row, row.nano_per_minute * _MINUTES) for row in selectors.rate_history()],
        "paid_nano": sum(amount for _, _, amount in paid),
        "form": form,
        "now": now,
        "days": _DAYS,
    }
    return render(request, "operators/availability.html", context)


def _set_rate(request: OperatorRequest, form: RateForm, now: datetime) -> bool:
    try:
        services.set_rate(
            gpu_kind=form.cleaned_data["gpu_kind"],
            nano_per_minute=form.cleaned_data["per_minute"],
            actor=request.actor,
            now=now,
            effective_from=form.cleaned_data["effective_from"] or hour_of(now) + HOUR,
        )
    except DomainError as refusal:
        form.add_error(None, refusal.sentences)
        return False
    messages.success(request, "The rate is set.")
    return True


urlpatterns = [path("availability/", availability, name="availability")]
