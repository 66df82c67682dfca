"""Operator pages: corrections of what providers are owed. The main page's route is named `operators:adjustments`."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Organization
from portal.billing.models import AdjustmentKind, AdjustmentReason, AdjustmentState
from portal.billing.selectors import adjustments as selectors
from portal.billing.selectors import balances
from portal.billing.services import adjustments
from portal.billing.services.adjustments import AdjustmentOrder
from portal.core import clock
from portal.core.errors import DomainError, InvalidValue
from portal.core.money import nano_from_text
from portal.operators.access import OperatorRequest, operator_page
from portal.providers.models import Provider
from portal.providers.selectors import providers


class AdjustmentForm(forms.Form):
    """What is corrected and why."""

    kind = forms.ChoiceField(choices=AdjustmentKind.choices)
    amount = forms.CharField(
        max_length=24,
        help_text="In the pool's currency, such as `12.50`; up to nine decimals.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    reason = forms.ChoiceField(choices=AdjustmentReason.choices)
    note = forms.CharField(max_length=240, help_text="The provider reads this, word for word.")
    evidence = forms.URLField(
        max_length=400, required=False, assume_scheme="https", help_text="A link that shows it; the provider sees it."
    )
    customer = forms.CharField(
        max_length=40,
        required=False,
        help_text="Id of the organization that gets what is taken back, `org_…`. Empty: the pool.",
    )

    def clean_amount(self) -> int:
        """Return the amount in nano units."""
        try:
            amount = nano_from_text(self.cleaned_data["amount"])
        except ValueError as error:
            raise forms.ValidationError("give an amount such as 12.50") from error
        if amount <= 0:
            raise forms.ValidationError("give an amount above zero")
        return amount

    def clean_customer(self) -> Organization | None:
        """Return the organization."""
        name = self.cleaned_data["customer"].strip()
        found = Organization.objects.filter(public_id=name).first() if name else None
        if name and found is None:
            raise forms.ValidationError("there is no such organization")
        return found


@operator_page
def adjustments_page(request: OperatorRequest) -> HttpResponse:
    """List corrections, newest first."""
    context = {"rows": selectors.adjustments(), "waiting": selectors.open_count()}
    return render(request, "operators/adjustments.html", context)


@operator_page
def new(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """Ask what is corrected; show what it would do; propose it."""
    provider = providers.provider(provider_id)
    form = AdjustmentForm(request.POST or None)
    split, is_seen = None, False
    if request.method == "POST" and form.is_valid():
        is_clawback = form.cleaned_data["kind"] == AdjustmentKind.CLAWBACK
        if request.POST.get("step") == "propose":
            made = _propose(request, form, provider)
            if made:
                return redirect("operators:adjustment", adjustment=made)
        elif is_clawback:
            split = adjustments.preview(provider=provider, amount_nano=form.cleaned_data["amount"])
        is_seen = not form.errors
    context = {
        "provider": provider,
        "balance": balances.provider_balance(provider=provider.public_id),
        "form": form,
        "split": split,
        "is_seen": is_seen,
        "approvers": settings.PAYOUT_APPROVERS,
    }
    return render(request, "operators/adjustment_new.html", context)


def _propose(request: OperatorRequest, form: AdjustmentForm, provider: Provider) -> str:
    given = form.cleaned_data
    order = AdjustmentOrder(
        provider=provider,
        kind=AdjustmentKind(given["kind"]),
        reason=AdjustmentReason(given["reason"]),
        amount_nano=given["amount"],
        note=given["note"],
        evidence=given["evidence"],
        customer=given["customer"],
    )
    try:
        row = adjustments.propose(order=order, proposed_by=request.user, actor=request.actor, now=clock.now())
    except DomainError as error:
        form.add_error(None, error.sentences)
        return ""
    messages.success(
        request, "It is booked." if row.state == AdjustmentState.BOOKED else "It waits for another operator."
    )
    return row.public_id


@operator_page
def adjustment(request: OperatorRequest, adjustment: str) -> HttpResponse:
    """Show one correction: what it takes or took, from where, and who decided."""
    row = selectors.adjustment(adjustment)
    is_open = row.state == AdjustmentState.PROPOSED
    is_clawback = row.kind == AdjustmentKind.CLAWBACK
    context = {
        "row": row,
        "is_open": is_open,
        "is_clawback": is_clawback,
        "split": adjustments.preview(provider=row.provider, amount_nano=row.amount_nano)
        if is_open and is_clawback
        else None,
        "may_approve": is_open and (settings.PAYOUT_APPROVERS == 1 or row.proposed_by_id != request.user.pk),
    }
    return render(request, "operators/adjustment.html", context)


@require_POST
@operator_page
def decide(request: OperatorRequest, adjustment: str) -> HttpResponse:
    """Approve or withdraw a proposed correction."""
    action, now = request.POST.get("action", ""), clock.now()
    if action == "approve":
        adjustments.approve(public_id=adjustment, approver=request.user, actor=request.actor, now=now)
        messages.success(request, "It is booked, and the provider is told.")
    elif action == "withdraw":
        adjustments.withdraw(public_id=adjustment, by=request.user, actor=request.actor, now=now)
        messages.success(request, "It is withdrawn; nothing was booked.")
    else:
        raise InvalidValue("use approve or withdraw", param="action")
    return redirect("operators:adjustment", adjustment=adjustment)


urlpatterns = [
    path("adjustments/", adjustments_page, name="adjustments"),
    path("adjustments/of/<str:provider_id>/", new, name="adjustment-new"),
    path("adjustments/<str:adjustment>/", adjustment, name="adjustment"),
    path("adjustments/<str:adjustment>/decide/", decide, name="adjustment-decide"),
]
