"""By which rail a provider is paid now and to what destination, or why not: one place that drafts and pages ask."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError
from portal.payouts.models import PayoutAccount, Rail
from portal.payouts.rules import accounts as account_rules
from portal.payouts.rules import reasons
from portal.payouts.rules.reasons import Reason
from portal.payouts.selectors import destinations
from portal.payouts.services import accounts
from portal.providers.models import Provider


@dataclass(frozen=True, slots=True)
class Route:
    """Where a payout goes: an account at Stripe, or bank details by their public id."""

    rail: str
    destination: str


def find(*, provider: Provider, now: datetime) -> Route | Reason:
    """Return the way to the provider, after a look at its account at Stripe; a reason where nothing may be sent."""
    until = destinations.held_until(provider=provider, now=now)
    if until is not None:
        return reasons.reason(reasons.CHANGED, f"until {until:%Y-%m-%d %H:%M} UTC")
    by_bank = manual(provider=provider)
    return by_bank if by_bank is not None else _by_stripe(provider, now)


def manual(*, provider: Provider) -> Route | None:
    """Return the way by bank transfer: it goes first where an operator has checked the provider's bank details."""
    row = destinations.verified_bank_account(provider=provider) if settings.MANUAL_PAYOUTS else None
    return Route(Rail.MANUAL, row.public_id) if row is not None else None


def _by_stripe(provider: Provider, now: datetime) -> Route | Reason:
    row = PayoutAccount.objects.filter(provider=provider, stripe_account__isnull=False).first()
    if row is None or row.stripe_account is None:
        waits = settings.MANUAL_PAYOUTS and destinations.bank_account_of(provider=provider) is not None
        return reasons.reason(reasons.BANK_UNCHECKED if waits else reasons.NO_ACCOUNT)
    try:
        row = accounts.refresh(provider_id=provider.public_id, now=now)
        until = destinations.held_until(provider=provider, now=now)
        if until is not None:
            return reasons.reason(reasons.CHANGED, f"until {until:%Y-%m-%d %H:%M} UTC")
        if not account_rules.is_payable(row.state):
            return reasons.reason(reasons.ACCOUNT, f"{row.state} {row.state_code}".strip())
        destination = row.stripe_account or ""
        if is_negative(destination):
            return reasons.reason(reasons.NEGATIVE)
    except PaymentError as error:
        return reasons.reason(reasons.STRIPE, error.stripe_code)
    return Route(Rail.STRIPE, destination)


def is_negative(destination: str) -> bool:
    """Tell whether Stripe would keep a transfer to repay what the account owes it."""
    return any(one.available_minor + one.pending_minor < 0 for one in stripe.payments().balances(account=destination))
