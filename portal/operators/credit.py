"""Operator pages: credit that no card paid for: gifts, customers' bank transfers, paying afterwards and its bills."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Organization
from portal.accounts.selectors import organizations
from portal.billing.amount_fields import AmountField, take
from portal.billing.models import BankTransfer
from portal.billing.selectors import balances, bank_transfers, grants, postpaid
from portal.billing.services import bank_transfers as bank_services
from portal.billing.services import grants as grant_services
from portal.billing.services import postpaid as postpaid_services
from portal.billing.services import postpaid_bills
from portal.billing.services.bank_transfers import Line
from portal.billing.services.grants import Gift
from portal.billing.services.postpaid import Terms
from portal.core import clock, money
from portal.core.errors import InvalidValue
from portal.operators.access import OperatorRequest, operator_page

_KEY_LENGTH = 16


def _day(**attrs: str) -> forms.DateInput:
    return forms.DateInput(attrs={"type": "date", **attrs})


class GiftForm(forms.Form):
    """Promotional credit: how much, until when, and what the customer reads."""

    amount = AmountField()
    expires_on = forms.DateField(
        label="Ends after", required=False, widget=_day(), help_text="The last day, in UTC. Empty: never."
    )
    note = forms.CharField(max_length=240, required=False, help_text="The customer reads it.")
    client_key = forms.CharField(widget=forms.HiddenInput, max_length=80)


class BankForm(forms.Form):
    """One line of the bank's statement."""

    reference = forms.CharField(
        label="Bank's reference", max_length=96, help_text="The bank's own number of this line: it is booked once."
    )
    amount = AmountField()
    received_on = forms.DateField(label="Received on", widget=_day())
    payer = forms.CharField(label="Paid by", max_length=160, help_text="As the bank names them.")


class PostpaidForm(forms.Form):
    """How much may be owed, and how soon bills are due."""

    limit = AmountField(label="Limit", help_text="The most that may be owed at any time, billed or not.")
    due_days = forms.IntegerField(label="Days to pay a bill", min_value=1, max_value=120, initial=14)


@operator_page
def credit(request: OperatorRequest) -> HttpResponse:
    """Show what waits: transfers to confirm, open bills; and the last transfers."""
    context = {
        "waiting": bank_transfers.waiting(),
        "recent": bank_transfers.recent(),
        "bills": [one for one in postpaid.open_bills() if one.is_open],
        "now": clock.now(),
    }
    return render(request, "operators/credit.html", context)


@operator_page
def customer_credit(request: OperatorRequest, organization: str) -> HttpResponse:
    """Show one customer's gifts, bank transfers, terms of paying afterwards and bills."""
    return _page(request, organizations.get_organization(public_id=organization))


def _page(request: OperatorRequest, row: Organization, **sent: forms.Form) -> HttpResponse:
    terms = postpaid.terms_of(organization=row)
    context = {
        "row": row,
        "balance": balances.customer_balance(organization=row.public_id),
        "gifts": grants.grants_of(organization=row),
        "transfers": bank_transfers.transfers_of(organization=row),
        "terms": terms,
        "bills": postpaid.bills_of(organization=row),
        "gift_form": sent.get("gift_form") or GiftForm(initial={"client_key": secrets.token_urlsafe(_KEY_LENGTH)}),
        "bank_form": sent.get("bank_form") or BankForm(),
        "postpaid_form": sent.get("postpaid_form") or PostpaidForm(),
    }
    return render(request, "operators/customer_credit.html", context)


@require_POST
@operator_page
def give(request: OperatorRequest, organization: str) -> HttpResponse:
    """Give promotional credit."""
    row, form = organizations.get_organization(public_id=organization), GiftForm(request.POST)
    if form.is_valid() and take(form, lambda: _give(request, row, form.cleaned_data)):
        messages.success(request, "The credit is given.")
        return redirect("operators:customer-credit", organization)
    return _page(request, row, gift_form=form)


def _give(request: OperatorRequest, row: Organization, given: dict[str, Any]) -> None:
    last = given["expires_on"]
    gift = Gift(
        amount_nano=money.nano_from_minor(given["amount"], settings.CURRENCY),
        expires_at=datetime.combine(last + timedelta(days=1), time.min, tzinfo=UTC) if last else None,
        note=given["note"],
    )
    grant_services.give(organization=row, gift=gift, key=given["client_key"], actor=request.actor, now=clock.now())


@require_POST
@operator_page
def enter(request: OperatorRequest, organization: str) -> HttpResponse:
    """Enter a customer's bank transfer."""
    row, form = organizations.get_organization(public_id=organization), BankForm(request.POST)
    if form.is_valid() and take(form, lambda: _enter(request, row, form.cleaned_data)):
        return redirect("operators:customer-credit", organization)
    return _page(request, row, bank_form=form)


def _enter(request: OperatorRequest, row: Organization, given: dict[str, Any]) -> None:
    line = Line(
        reference=given["reference"],
        amount_minor=given["amount"],
        received_on=given["received_on"],
        payer=given["payer"],
    )
    entered = bank_services.enter(
        organization=row, line=line, operator=request.user, actor=request.actor, now=clock.now()
    )
    if entered.state == "booked":
        messages.success(request, f"{entered.public_id} is booked; the credit can be spent.")
    else:
        messages.warning(request, f"{entered.public_id} waits for another operator's yes.")


@require_POST
@operator_page
def act(request: OperatorRequest, transfer: str) -> HttpResponse:
    """Do what the operator chose with one bank transfer."""
    acts: dict[str, Callable[[OperatorRequest, str], BankTransfer]] = {
        "confirm": _confirm,
        "refuse": _refuse,
        "reverse": _reverse,
    }
    action = request.POST.get("action", "")
    if action not in acts:
        raise InvalidValue(f"use one of {', '.join(acts)}", param="action")
    done = acts[action](request, transfer)
    messages.success(request, f"{done.public_id} is {done.state}.")
    return redirect("operators:customer-credit", done.organization.public_id)


def _confirm(request: OperatorRequest, transfer: str) -> BankTransfer:
    return bank_services.confirm(public_id=transfer, operator=request.user, actor=request.actor, now=clock.now())


def _refuse(request: OperatorRequest, transfer: str) -> BankTransfer:
    return bank_services.refuse(public_id=transfer, reason=_reason(request), actor=request.actor, now=clock.now())


def _reverse(request: OperatorRequest, transfer: str) -> BankTransfer:
    return bank_services.reverse(public_id=transfer, reason=_reason(request), actor=request.actor, now=clock.now())


def _reason(request: OperatorRequest) -> str:
    text = request.POST.get("reason", "").strip()
    if not text:
        raise InvalidValue("give the reason; it is kept in the audit log", param="reason")
    return text


@require_POST
@operator_page
def offer(request: OperatorRequest, organization: str) -> HttpResponse:
    """Invite the customer to pay afterwards, or change its limit."""
    row, form = organizations.get_organization(public_id=organization), PostpaidForm(request.POST)
    if form.is_valid() and take(form, lambda: _offer(request, row, form.cleaned_data)):
        messages.success(request, "The terms are set.")
        return redirect("operators:customer-credit", organization)
    return _page(request, row, postpaid_form=form)


def _offer(request: OperatorRequest, row: Organization, given: dict[str, Any]) -> None:
    terms = Terms(limit_nano=money.nano_from_minor(given["limit"], settings.CURRENCY), due_days=given["due_days"])
    postpaid_services.offer(organization=row, terms=terms, operator=request.user, actor=request.actor, now=clock.now())


@require_POST
@operator_page
def end(request: OperatorRequest, organization: str) -> HttpResponse:
    """Let the customer draw no more."""
    row = organizations.get_organization(public_id=organization)
    postpaid_services.end(organization=row, reason=_reason(request), actor=request.actor, now=clock.now())
    messages.success(request, "Nothing more is drawn; what is owed is billed.")
    return redirect("operators:customer-credit", organization)


@require_POST
@operator_page
def write_off(request: OperatorRequest, bill: str) -> HttpResponse:
    """Give up what of a bill is open."""
    done = postpaid_bills.write_off(public_id=bill, reason=_reason(request), actor=request.actor, now=clock.now())
    messages.success(request, f"{done.public_id} is written off.")
    return redirect("operators:customer-credit", done.organization.public_id)


urlpatterns = [
    path("credit/", credit, name="credit"),
    path("credit/bank-transfers/<str:transfer>/act/", act, name="bank-transfer-act"),
    path("credit/bills/<str:bill>/write-off/", write_off, name="bill-write-off"),
    path("customers/<str:organization>/credit/", customer_credit, name="customer-credit"),
    path("customers/<str:organization>/credit/gift/", give, name="customer-gift"),
    path("customers/<str:organization>/credit/bank/", enter, name="customer-bank"),
    path("customers/<str:organization>/credit/postpaid/", offer, name="customer-postpaid"),
    path("customers/<str:organization>/credit/postpaid/end/", end, name="customer-postpaid-end"),
]
