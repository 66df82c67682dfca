"""Operator pages: payouts by bank transfer, and the bank details they go to. Main route `operators:bank-transfers`."""

from collections.abc import Callable, Iterable
from datetime import date

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.core import clock
from portal.core.errors import InvalidValue
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.models import BankAccount, Payout, PayoutState
from portal.payouts.selectors import destinations
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import bank_accounts, bank_files, manual

_FILES = {"csv": ("text/csv; charset=utf-8", "csv"), "sepa": ("application/xml", "xml")}


class OrderForm(forms.Form):
    """What an operator says about one transfer; which fields are needed depends on the step."""

    reference = forms.CharField(max_length=140, required=False)
    reason = forms.CharField(max_length=200, required=False)
    day = forms.DateField(required=False, widget=forms.DateInput(attrs={"type": "date"}))


@operator_page
def transfers(request: OperatorRequest) -> HttpResponse:
    """Show what waits for a check, for an order, for a confirmation, and what was paid."""
    context = {
        "to_check": destinations.to_check(),
        "to_order": _with_accounts(selectors.manual_to_send()),
        "at_bank": _with_accounts(selectors.manual_payouts(states=[PayoutState.AT_BANK])),
        "paid": _with_accounts(selectors.manual_paid()),
        "today": clock.now().date(),
    }
    return render(request, "operators/bank_transfers.html", context)


def _with_accounts(payouts: Iterable[Payout]) -> list[tuple[Payout, BankAccount | None]]:
    found = list(payouts)
    accounts = destinations.bank_accounts_by_id(one.destination for one in found)
    return [(one, accounts.get(one.destination)) for one in found]


@require_POST
@operator_page
def bank_file(request: OperatorRequest) -> HttpResponse:
    """Answer with the approved transfers as the file that the bank takes; who took it is kept."""
    kind, now = request.POST.get("kind", ""), clock.now()
    if kind not in _FILES:
        raise InvalidValue(f"use one of {', '.join(_FILES)}", param="kind")
    body: str | bytes
    if kind == "csv":
        body = bank_files.table(actor=request.actor, now=now)
    else:
        body = bank_files.sepa(actor=request.actor, now=now)
    content_type, ending = _FILES[kind]
    answer = HttpResponse(body, content_type=content_type)
    answer["content-disposition"] = f'attachment; filename="payouts-{now:%Y%m%d-%H%M%S}.{ending}"'
    answer["cache-control"] = "no-store"
    return answer


@require_POST
@operator_page
def act(request: OperatorRequest, payout: str) -> HttpResponse:
    """Take an operator's word about one transfer."""
    action = request.POST.get("action", "")
    acts: dict[str, Callable[[OperatorRequest, str, OrderForm], Payout]] = {
        "sent": _sent,
        "take_back": _take_back,
        "paid": _paid,
        "refused": _refused,
        "returned": _returned,
    }
    form = OrderForm(request.POST)
    if action not in acts:
        raise InvalidValue(f"use one of {', '.join(acts)}", param="action")
    if not form.is_valid():
        raise InvalidValue("; ".join(f"{name}: {errors[0]}" for name, errors in form.errors.items()), param="day")
    done = acts[action](request, payout, form)
    messages.success(request, f"{done.public_id} is {done.get_state_display().lower()} now.")
    return redirect("operators:bank-transfers")


def _sent(request: OperatorRequest, payout: str, form: OrderForm) -> Payout:
    return manual.mark_sent(
        payout_public_id=payout,
        reference=form.cleaned_data["reference"],
        ordered_on=_day(form),
        operator=request.user,
        actor=request.actor,
        now=clock.now(),
    )


def _take_back(request: OperatorRequest, payout: str, form: OrderForm) -> Payout:
    return manual.take_back(
        payout_public_id=payout,
        reason=form.cleaned_data["reason"],
        operator=request.user,
        actor=request.actor,
        now=clock.now(),
    )


def _paid(request: OperatorRequest, payout: str, form: OrderForm) -> Payout:
    return manual.confirm(
        payout_public_id=payout, paid_on=_day(form), operator=request.user, actor=request.actor, now=clock.now()
    )


def _refused(request: OperatorRequest, payout: str, form: OrderForm) -> Payout:
    return manual.refused(
        payout_public_id=payout,
        reason=form.cleaned_data["reason"],
        operator=request.user,
        actor=request.actor,
        now=clock.now(),
    )


def _returned(request: OperatorRequest, payout: str, form: OrderForm) -> Payout:
    return manual.returned(
        payout_public_id=payout,
        reason=form.cleaned_data["reason"],
        returned_on=_day(form),
        operator=request.user,
        actor=request.actor,
        now=clock.now(),
    )


def _day(form: OrderForm) -> date:
    found: date | None = form.cleaned_data["day"]
    if found is None:
        raise InvalidValue("give the day as the bank's statement has it", param="day")
    return found


@operator_page
def bank_account(request: OperatorRequest, bank_account: str) -> HttpResponse:
    """Show bank details by their last digits; a POST shows the rest, checks them or refuses them, each recorded."""
    row = destinations.bank_account(bank_account)
    shown = None
    if request.method == "POST":
        now, action, reason = clock.now(), request.POST.get("action", ""), request.POST.get("reason", "")
        if action == "show":
            shown = bank_accounts.reveal(bank_account=bank_account, purpose="check", actor=request.actor, now=now)
        elif action == "verify":
            bank_accounts.verify(bank_account=bank_account, actor=request.actor, now=now)
        elif action == "refuse":
            bank_accounts.refuse(bank_account=bank_account, reason=reason, actor=request.actor, now=now)
        else:
            raise InvalidValue("use one of show, verify, refuse", param="action")
        if shown is None:
            messages.success(request, "Decided; the provider's owners get an e-mail.")
            return redirect("operators:bank-transfers")
    context = {
        "row": row,
        "shown": shown,
        "same": destinations.same_account(row=row),
        "changes": destinations.changes_of(provider=row.provider, limit=10),
        "held_until": destinations.held_until(provider=row.provider, now=clock.now()),
    }
    return render(request, "operators/bank_account.html", context)


urlpatterns = [
    path("bank-transfers/", transfers, name="bank-transfers"),
    path("bank-transfers/file/", bank_file, name="bank-transfers-file"),
    path("bank-transfers/<str:payout>/", act, name="payout-transfer-act"),
    path("bank-accounts/<str:bank_account>/", bank_account, name="bank-account"),
]
