"""Operator page: where one provider's money goes, what Stripe says of its account, and what changed."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.billing.selectors import held_earnings
from portal.core import clock
from portal.core.errors import InvalidValue
from portal.integrations.stripe_errors import PaymentError
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.errors import AccountGone
from portal.payouts.rules import accounts as rules
from portal.payouts.rules import requirements
from portal.payouts.selectors import accounts as selectors
from portal.payouts.selectors import destinations
from portal.payouts.services import accounts
from portal.providers.models import Provider
from portal.providers.selectors import providers


@operator_page
def payout_account(request: OperatorRequest, provider: str) -> HttpResponse:
    """Show the account; a POST reads it again, or accepts that it takes another currency than the one before."""
    row = providers.provider(provider)
    if request.method == "POST":
        _act(request, row)
        return redirect("operators:payout-account", provider)
    account, now = selectors.account_of(provider=row), clock.now()
    state, code = (account.state, account.state_code) if account else ("not_started", "")
    context = {
        "row": row,
        "account": account,
        "state": state,
        "cause": rules.cause(state, code),
        "fix": rules.fix(state, code),
        "asks": requirements.asks(account.requirements) if account else [],
        "days_left": requirements.days_left(account.due_at, now=now) if account else None,
        "may_accept_currency": code == rules.CURRENCY_DIFFERS,
        "held": held_earnings.held_of(provider=row.public_id),
        "held_until": destinations.held_until(provider=row, now=now),
        "bank": destinations.last_bank_account(provider=row),
        "changes": destinations.changes_of(provider=row),
    }
    return render(request, "operators/payout_account.html", context)


def _act(request: OperatorRequest, row: Provider) -> None:
    action, now = request.POST.get("action", ""), clock.now()
    if action not in {"refresh", "accept_currency"}:
        raise InvalidValue("use one of refresh, accept_currency", param="action")
    if action == "accept_currency":
        accounts.accept_currency(provider=row, actor=request.actor, now=now)
    try:
        accounts.refresh(provider_id=row.public_id, now=now)
    except (PaymentError, AccountGone) as error:
        messages.warning(request, f"The account could not be read: {error.message}")


urlpatterns = [path("payout-accounts/<str:provider>/", payout_account, name="payout-account")]
