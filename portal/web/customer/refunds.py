"""Customer pages: unused credit back to the card that paid. Routes `customer:refunds`, `customer:refund-cancel`."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.billing.amount_fields import AmountField
from portal.billing.models import Refund, TopUp
from portal.billing.rules import refunds as rules
from portal.billing.selectors import disputes as dispute_selectors
from portal.billing.selectors import refunds as selectors
from portal.billing.services import refunds
from portal.core import clock, money
from portal.core.errors import DomainError
from portal.web import formats
from portal.web.access import OrganizationRequest, page


class RefundForm(forms.Form):
    """How much of which purchase is to go back, and why."""

    purchase = forms.ChoiceField()
    amount = AmountField(help_text=f"In {settings.CURRENCY.upper()}, such as 12.50.")
    note = forms.CharField(label="Why", max_length=240, required=False, help_text="For the operator of the pool.")

    def __init__(self, *args: object, found: list[tuple[TopUp, int]], **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]  # Django's own arguments, passed on
        choices = [(topup.public_id, _named(topup, most)) for topup, most in found]
        self.fields["purchase"].choices = choices  # type: ignore[attr-defined]  # a ChoiceField has them


def _named(topup: TopUp, most: int) -> str:
    shown = formats.money(money.nano_from_minor(most, topup.currency), currency=topup.currency)
    return f"{topup.paid_at:%Y-%m-%d}: up to {shown}"


@page(side="customer", post_role=Role.ADMIN)
def refund_list(request: OrganizationRequest) -> HttpResponse:
    """Show refunds and disputes; a POST asks for a refund."""
    organization = request.organization
    found = selectors.refundable_topups(organization=organization)
    form = RefundForm(request.POST or None, found=found)
    if request.method == "POST" and form.is_valid() and _ask(request, form):
        return redirect("customer:refunds")
    context = {
        "form": form,
        "can_ask": bool(found),
        "is_automatic": settings.REFUNDS == "automatic",
        "stopped_for": organization.stopped_for,
        "rows": [_row(one) for one in selectors.refunds(organization=organization)],
        "disputes": dispute_selectors.disputes(organization=organization),
    }
    return render(request, "customer/refunds.html", context)


def _ask(request: OrganizationRequest, form: RefundForm) -> bool:
    try:
        made = refunds.ask(
            organization=request.organization,
            topup_public_id=form.cleaned_data["purchase"],
            amount_minor=form.cleaned_data["amount"],
            note=form.cleaned_data["note"],
            actor=request.actor,
            now=clock.now(),
        )
    except DomainError as error:
        form.add_error("amount" if error.param == "amount" else None, error.sentences)
        return False
    messages.success(request, rules.MEANINGS[made.state])
    return True


def _row(one: Refund) -> dict[str, object]:
    return {
        "refund": one,
        "meaning": rules.MEANINGS[one.state],
        "may_cancel": one.state == "requested",
    }


@require_POST
@page(side="customer", post_role=Role.ADMIN)
def cancel(request: OrganizationRequest, refund: str) -> HttpResponse:
    """Take back a wish that nobody has decided on."""
    found = selectors.refund_of(organization=request.organization, public_id=refund)
    refunds.cancel(
        refund_public_id=found.public_id, reason="taken back by the customer", actor=request.actor, now=clock.now()
    )
    messages.success(request, "Taken back; the amount is credit again.")
    return redirect("customer:refunds")


urlpatterns = [
    path("refunds/", refund_list, name="refunds"),
    path("refunds/<str:refund>/cancel/", cancel, name="refund-cancel"),
]
