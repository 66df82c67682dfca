"""Operator pages: providers, their approval and rights, and the agreement. Main route `operators:providers`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.audit.selectors import events_of
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.nodes.selectors import nodes as node_selectors
from portal.nodes.services import fleet
from portal.operators.access import OperatorRequest, operator_page
from portal.providers.models import Provider, ProviderKind, ProviderState
from portal.providers.rules.states import PROVIDER_MOVES
from portal.providers.selectors import agreements
from portal.providers.selectors import providers as selectors
from portal.providers.services import agreements as agreement_services
from portal.providers.services import review

_DECISIONS = {
    "approve": ("Approve", ProviderState.APPROVED, "Its nodes take requests from their next sign of life on."),
    "reject": ("Reject", ProviderState.REJECTED, "It reads the reason and may submit again."),
    "suspend": ("Suspend", ProviderState.SUSPENDED, "All its nodes stop at once. It reads the reason. Money stays."),
    "reinstate": ("Lift the suspension", ProviderState.APPROVED, "Its nodes may open sessions again."),
}
_NEEDS_REASON = {"reject", "suspend"}


class ReasonForm(forms.Form):
    """Why: the provider reads it."""

    reason = forms.CharField(max_length=240, help_text="The provider reads this, word for word.")


class RightsForm(forms.Form):
    """What kind of provider it is and what it may do."""

    kind = forms.ChoiceField(
        choices=ProviderKind.choices,
        help_text="House is your own: no payouts. Contracted has signed terms. The class of its nodes follows.",
    )
    may_use_external_engine = forms.BooleanField(
        label="May serve from servers that the agent did not start",
        required=False,
        help_text="What such a server does with prompts cannot be seen. House providers always may.",
    )


class AgreementForm(forms.Form):
    """A new version of the provider agreement."""

    version = forms.CharField(max_length=24, help_text="Never used before, for example 2027-1.")
    text = forms.CharField(widget=forms.Textarea(attrs={"rows": 12}))
    effective_from = MomentField(
        label="In force from (UTC)", help_text="Empty: now. From then on nodes serve only where it was accepted."
    )


@operator_page
def providers(request: OperatorRequest) -> HttpResponse:
    """List providers."""
    state = request.GET.get("state", "")
    context = {
        "rows": selectors.providers_of_operator(state=state),
        "state": state,
        "states": ProviderState.choices,
        "agreement": agreements.current_agreement(now=clock.now()),
    }
    return render(request, "operators/providers.html", context)


@operator_page
def provider(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """Show one provider; a POST sets its kind and rights."""
    row = selectors.provider(provider_id)
    initial = {"kind": row.kind, "may_use_external_engine": row.may_use_external_engine}
    form = RightsForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        _set_rights(request, row, form)
        messages.success(request, "Kind and rights are set.")
        return redirect("operators:provider", provider_id=provider_id)
    now = clock.now()
    current = agreements.current_agreement(now=now)
    context = {
        "row": row,
        "form": form,
        "decisions": decisions_for(row),
        "nodes": node_selectors.fleet(provider=provider_id),
        "agreement": current,
        "acceptance": agreements.acceptance(provider=row, agreement=current) if current else None,
        "events": events_of(organization=row.organization.public_id),
    }
    return render(request, "operators/provider.html", context)


@operator_page
def decide(request: OperatorRequest, provider_id: str, decision: str) -> HttpResponse:
    """Approve, reject, suspend or reinstate, after asking."""
    row = selectors.provider(provider_id)
    if decision not in dict(decisions_for(row)):
        return redirect("operators:provider", provider_id=provider_id)
    form = ReasonForm(request.POST or None) if decision in _NEEDS_REASON else None
    if request.method == "POST" and (form is None or form.is_valid()):
        reason = form.cleaned_data["reason"] if form else ""
        _decide(request, row, decision, reason)
        return redirect("operators:provider", provider_id=provider_id)
    name, _, effect = _DECISIONS[decision]
    context = {"row": row, "form": form, "name": name, "effect": effect, "decision": decision}
    return render(request, "operators/provider_decide.html", context)


@operator_page
def agreement(request: OperatorRequest) -> HttpResponse:
    """Show the agreement in force and publish a new version."""
    now = clock.now()
    form = AgreementForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            _publish(request, form, now)
        except DomainError as error:
            form.add_error("version", error.sentences)
        else:
            messages.success(request, "The version is published; every provider is asked to accept it.")
            return redirect("operators:agreement")
    context = {"form": form, "agreement": agreements.current_agreement(now=now)}
    return render(request, "operators/agreement.html", context)


def decisions_for(row: Provider) -> list[tuple[str, str]]:
    """Return the decisions that the provider's state allows: (word in the address, name)."""
    allowed = PROVIDER_MOVES[row.state]
    approve = "reinstate" if row.state == ProviderState.SUSPENDED else "approve"
    return [
        (word, name)
        for word, (name, after, _) in _DECISIONS.items()
        if after in allowed and (after != ProviderState.APPROVED or word == approve)
    ]


def _decide(request: OperatorRequest, row: Provider, decision: str, reason: str) -> None:
    now, actor, provider_id = clock.now(), request.actor, row.public_id
    if decision == "suspend":
        fleet.suspend_provider(provider_id=provider_id, reason=reason, actor=actor, now=now)
    elif decision == "reinstate":
        fleet.reinstate_provider(provider_id=provider_id, actor=actor, now=now)
    elif decision == "reject":
        review.reject_provider(provider_id=provider_id, reason=reason, actor=actor, now=now)
    else:
        review.approve_provider(provider_id=provider_id, actor=actor, now=now)


def _set_rights(request: OperatorRequest, row: Provider, form: RightsForm) -> None:
    now = clock.now()
    review.set_rights(
        provider_id=row.public_id,
        kind=ProviderKind(form.cleaned_data["kind"]),
        may_use_external_engine=form.cleaned_data["may_use_external_engine"],
        actor=request.actor,
        now=now,
    )


def _publish(request: OperatorRequest, form: AgreementForm, now: datetime) -> None:
    agreement_services.publish_agreement(
        version=form.cleaned_data["version"],
        text=form.cleaned_data["text"],
        effective_from=form.cleaned_data["effective_from"] or now,
        actor=request.actor,
        now=now,
    )


urlpatterns = [
    path("providers/", providers, name="providers"),
    path("providers/agreement/", agreement, name="agreement"),
    path("providers/<str:provider_id>/", provider, name="provider"),
    path("providers/<str:provider_id>/<str:decision>/", decide, name="provider-decide"),
]
