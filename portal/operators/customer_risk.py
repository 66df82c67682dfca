"""Operator pages: how far a customer's payments are trusted. Route `operators:customer-risk`."""

from collections.abc import Callable

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Organization
from portal.accounts.selectors import organizations
from portal.billing.models import StopKind
from portal.billing.rules.risk import Tier
from portal.billing.selectors import disputes as dispute_selectors
from portal.billing.selectors import refunds as refund_selectors
from portal.billing.selectors import related as related_selectors
from portal.billing.selectors import risk as selectors
from portal.billing.selectors import topups as topup_selectors
from portal.billing.services import earning_delay, refunds, risk, stops
from portal.core import clock, money
from portal.core.errors import InvalidValue
from portal.operators.access import OperatorRequest, operator_page


class PinForm(forms.Form):
    """A tier set by hand."""

    tier = forms.ChoiceField(
        choices=[("", "as the facts say"), *((tier.value, tier.value) for tier in Tier)], required=False
    )
    note = forms.CharField(label="Why", max_length=240, help_text="Kept in the audit log.")


@operator_page
def customer_risk(request: OperatorRequest, organization: str) -> HttpResponse:
    """Show tier, cards, stops, disputes, refunds and related parties of one organization."""
    row = organizations.get_organization(public_id=organization)
    now = clock.now()
    found = selectors.risk_of(organization=row)
    context = {
        "row": row,
        "risk": found,
        "days": risk.holds().days(found.in_force) if found else 0,
        "provider_days": settings.PAYOUT_HOLD_DAYS,
        "pin_form": PinForm(initial={"tier": found.pinned_tier if found else ""}),
        "cards": selectors.cards_of(organization=row, since=now - selectors.CARDS_COUNT_FOR),
        "stops": selectors.stops_of(organization=row),
        "refundable": refund_selectors.refundable_topups(organization=row),
        "refunds": refund_selectors.refunds(organization=row, limit=20),
        "disputes": dispute_selectors.disputes(organization=row),
        "warnings": dispute_selectors.warnings(organization=row),
        "pairs": related_selectors.pairs(organization=row),
        "kept_back_nano": sum(
            one.amount_nano for one in earning_delay.immature(organization=organization).order_by("pk")[:1000]
        ),
    }
    return render(request, "operators/customer_risk.html", context)


@require_POST
@operator_page
def act(request: OperatorRequest, organization: str) -> HttpResponse:
    """Pin a tier, stop or allow spending, or refund a purchase."""
    acts: dict[str, Callable[[OperatorRequest, Organization], str]] = {
        "pin": _pin,
        "stop": _stop,
        "lift": _lift,
        "refund": _refund,
    }
    action = request.POST.get("action", "")
    if action not in acts:
        raise InvalidValue(f"use one of {', '.join(acts)}", param="action")
    row = organizations.get_organization(public_id=organization)
    messages.success(request, acts[action](request, row))
    return redirect("operators:customer-risk", organization)


def _pin(request: OperatorRequest, row: Organization) -> str:
    tier = request.POST.get("tier", "")
    risk.pin(organization=row, tier=tier, note=_note(request), actor=request.actor, now=clock.now())
    return f"The tier is {tier}." if tier else "The facts decide again."


def _stop(request: OperatorRequest, row: Organization) -> str:
    now, note = clock.now(), _note(request)
    if not note.strip():
        raise InvalidValue("say why; it is kept in the audit log", param="note")
    stops.stop(
        organization=row,
        kind=StopKind.OPERATOR,
        subject=f"{now:%Y-%m-%dT%H:%M:%S}",
        note=note,
        actor=request.actor,
        now=now,
    )
    return "Stopped; every gateway knows within a second."


def _lift(request: OperatorRequest, row: Organization) -> str:
    number = request.POST.get("stop", "")
    stop_id = int(number) if number.isdigit() else 0
    stops.lift_by_hand(organization=row, stop_id=stop_id, note=_note(request), actor=request.actor, now=clock.now())
    return "Lifted; the organization may spend once no other stop is in force."


def _refund(request: OperatorRequest, row: Organization) -> str:
    topup = topup_selectors.topup_of(organization=row, public_id=request.POST.get("purchase", ""))
    refunds.give(topup=topup, amount_minor=_amount(request), note=_note(request), actor=request.actor, now=clock.now())
    return "It is set aside and sent within minutes."


def _amount(request: OperatorRequest) -> int:
    try:
        nano = money.nano_from_text(request.POST.get("amount", ""))
        minor, dust = money.minor_from_nano(nano, settings.CURRENCY)
    except ValueError as error:
        raise InvalidValue("write an amount such as 12.50", param="amount") from error
    if dust:
        raise InvalidValue("write an amount such as 12.50", param="amount")
    return minor


def _note(request: OperatorRequest) -> str:
    return request.POST.get("note", "").strip()


urlpatterns = [
    path("customers/<str:organization>/risk/", customer_risk, name="customer-risk"),
    path("customers/<str:organization>/risk/act/", act, name="customer-risk-act"),
]
