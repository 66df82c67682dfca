"""Provider pages: one payout down to its requests, when payouts are made, and leaving the pool."""

from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Role
from portal.billing.selectors import balances, spend
from portal.core import clock, money
from portal.core.errors import DomainError
from portal.payouts.models import Payout, Schedule
from portal.payouts.rules import states
from portal.payouts.selectors import earnings as selectors
from portal.payouts.selectors import outlook as outlooks
from portal.payouts.selectors import plans as plan_selectors
from portal.payouts.services import plans
from portal.web import movements
from portal.web.access import ProviderRequest, provider_page
from portal.web.bank_words import bank_words


class PlanForm(forms.Form):
    """When payouts are made."""

    schedule = forms.ChoiceField(choices=Schedule.choices, required=False)
    threshold = forms.DecimalField(
        required=False,
        min_value=0,
        max_digits=12,
        decimal_places=3,
        label="Amount",
        help_text="For “whenever an amount is reached”: a payout is drafted once so much is available.",
    )


class LeaveForm(forms.Form):
    """Leaving is confirmed by typing the provider's name."""

    name = forms.CharField(max_length=160, label="Your legal name, to confirm")


@provider_page()
def payout(request: ProviderRequest, payout: str) -> HttpResponse:
    """Show one payout: what it is made of, its earnings, and its way to the bank."""
    row = Payout.objects.filter(provider=request.provider, public_id=payout).select_related("provider").first()
    if row is None:
        raise Http404
    made_of = selectors.composition(payout=row)
    matured = selectors.matured(payout=row)
    context = {
        "payout": row,
        "meaning": states.meaning(row.state, row.rail),
        "bank": bank_words(row),
        "legs": row.bank_legs.order_by("-made_at", "-pk"),
        "made_of": made_of,
        "parts": [(movements.named(part.kind), part) for part in made_of.parts],
        "matured": matured,
        "matured_nano": selectors.sum_of(matured),
    }
    return render(request, "provider/payout.html", context)


@provider_page()
def earning(request: ProviderRequest, tx_id: UUID) -> HttpResponse:
    """Show the requests that one earning is made of."""
    rows = selectors.records_of(provider=request.provider.public_id, tx=tx_id)
    if not rows:
        raise Http404
    records = selectors.usage_of(rows)
    names = spend.model_names({record.model_id for record in records.values()})
    context = {
        "rows": [(row, records.get((row.opened_on, row.request_id, row.attempt))) for row in rows],
        "models": names,
        "total_nano": sum(row.provider_nano for row in rows),
    }
    return render(request, "provider/earning.html", context)


@provider_page(post_role=Role.ADMIN)
def plan(request: ProviderRequest) -> HttpResponse:
    """Show and change when payouts are made."""
    row = plan_selectors.plan_of(provider=request.provider)
    exponent = money.exponent(settings.CURRENCY)
    initial: dict[str, object] = {"schedule": row.schedule if row else ""}
    if row and row.threshold_minor:
        initial["threshold"] = money.decimal_text(money.nano_from_minor(row.threshold_minor, settings.CURRENCY))
    form = PlanForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data["threshold"]
        try:
            plans.choose(
                provider_id=request.provider.public_id,
                schedule=Schedule(form.cleaned_data["schedule"]),
                threshold_minor=int(given * 10**exponent) if given else None,
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            form.add_error("threshold", error.sentences)
        else:
            messages.success(request, "Your choice holds from the next draft on.")
            return redirect("provider:payouts")
    context = {
        "form": form,
        "outlook": outlooks.outlook(provider=request.provider, now=clock.now()),
        "pool_schedule": settings.PAYOUT_SCHEDULE,
        "day": settings.PAYOUT_DAY,
        "pool_threshold_minor": settings.PAYOUT_THRESHOLD_MINOR,
    }
    return render(request, "provider/payout_plan.html", context)


@provider_page(role=Role.OWNER)
def leave(request: ProviderRequest) -> HttpResponse:
    """Say what leaving means; leave."""
    form = LeaveForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        if form.cleaned_data["name"].strip() != request.provider.legal_name:
            form.add_error("name", "that is not the legal name of this provider")
        else:
            try:
                plans.leave(provider_id=request.provider.public_id, actor=request.actor, now=clock.now())
            except DomainError as error:
                form.add_error(None, error.sentences)
            else:
                messages.success(request, "You have left. What you earned is paid out as it matures.")
                return redirect("provider:payouts")
    context = {
        "form": form,
        "balance": balances.provider_balance(provider=request.provider.public_id),
        "outlook": outlooks.outlook(provider=request.provider, now=clock.now()),
        "plan": plan_selectors.plan_of(provider=request.provider),
        "nodes": plan_selectors.living_nodes(provider=request.provider),
        "reserve_days": settings.PAYOUT_RESERVE_DAYS,
    }
    return render(request, "provider/leave.html", context)


urlpatterns = [
    path("payouts/plan/", plan, name="payout-plan"),
    path("payouts/leave/", leave, name="leave"),
    path("payouts/of/<str:payout>/", payout, name="payout"),
    path("earnings/<uuid:tx_id>/", earning, name="earning"),
]
