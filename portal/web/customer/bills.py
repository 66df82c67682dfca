"""Customer pages: paying afterwards: taking the operator's offer, and bills with the way to pay them."""

from datetime import datetime

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.billing.rules import postpaid as rules
from portal.billing.rules import topups as topup_rules
from portal.billing.selectors import postpaid as selectors
from portal.billing.services import postpaid, topup_guard, topups
from portal.core import clock, money
from portal.web.access import OrganizationRequest, page
from portal.web.customer.credit import buy
from portal.web.customer.credit_forms import new_key
from portal.web.hosted import may_lead_to_stripe


class PayForm(forms.Form):
    """The hidden key makes a second click the same payment."""

    client_key = forms.CharField(widget=forms.HiddenInput, max_length=80)


@page(side="customer", post_role=Role.OWNER)
@require_POST
def accept(request: OrganizationRequest) -> HttpResponse:
    """Take the operator's offer to pay afterwards."""
    postpaid.accept(organization=request.organization, user=request.user, actor=request.actor, now=clock.now())
    messages.success(request, "From now on usage beyond your credit is billed each month.")
    return redirect("customer:credit")


@may_lead_to_stripe
@page(side="customer")
def bill(request: OrganizationRequest, bill: str) -> HttpResponse:
    """Show one bill; a POST opens Stripe's payment page for what is open of it."""
    found = selectors.bill_of(organization=request.organization, public_id=bill)
    shown = selectors.with_open([found])[0]
    amount = payable(shown.open_nano)
    now = clock.now()
    form = PayForm(request.POST or None, initial={"client_key": new_key()})
    if request.method == "POST" and shown.is_open and form.is_valid():
        wanted = topups.Wanted(amount_minor=amount, client_key=form.cleaned_data["client_key"], created_by=request.user)
        answer = buy(request, form, wanted, now=now)
        if answer is not None:
            return answer
    return render(request, "customer/bill.html", _context(shown, form, amount, now))


def payable(open_nano: int) -> int:
    """Return the minor units to pay at once: all that is open, within what one purchase may be."""
    least, most = topup_guard.least_minor(), topup_rules.most_minor(settings.CURRENCY)
    step = money.purchase_step_minor(settings.CURRENCY)
    whole = rules.payable_minor(nano=open_nano, nano_per_minor=money.nano_per_minor(settings.CURRENCY))
    return min(max(-(-whole // step) * step, least), most)


def _context(shown: selectors.OpenBill, form: forms.Form, amount: int, now: datetime) -> dict[str, object]:
    return {
        "bill": shown.bill,
        "open_nano": shown.open_nano,
        "is_open": shown.is_open,
        "is_late": shown.is_open and shown.bill.due_at <= now,
        "form": form,
        "pay_minor": amount,
        "paid_nano": shown.bill.drawn_nano - shown.open_nano - shown.bill.written_off_nano,
    }


urlpatterns = [
    path("credit/postpaid/accept/", accept, name="postpaid-accept"),
    path("credit/bills/<str:bill>/", bill, name="bill"),
]
