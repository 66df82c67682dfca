"""Who is paid how much in this run, and why someone is not: each payout reserves its money as it is made."""

from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction

from portal.audit.services import Actor
from portal.billing import locks as billing_locks
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import ledger
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError
from portal.payouts.models import OPEN_STATES, Payout, PayoutAccount, PayoutState
from portal.payouts.rules import accounts as account_rules
from portal.payouts.rules import approval, reasons
from portal.payouts.rules.amounts import payable_minor
from portal.payouts.rules.reasons import Reason
from portal.payouts.services import accounts, moves
from portal.providers.models import Provider, ProviderKind, ProviderState


@dataclass(frozen=True, slots=True)
class Skipped:
    """A provider who is owed money and is not paid now."""

    provider: Provider
    available_nano: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Due:
    """A provider who would be paid."""

    provider: Provider
    amount_minor: int
    destination: str


@dataclass(slots=True)
class DraftRun:
    """What a run did: the payouts that it reserved, and everyone it skipped with the reason."""

    payouts: list[Payout] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(slots=True)
class Preview:
    """What a run would do."""

    due: list[Due] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def preview(*, now: datetime) -> Preview:
    """Say what a run would do, without reserving anything."""
    seen = Preview()
    for provider, available in _owed():
        found = _examine(provider, available, now)
        if isinstance(found, Due):
            seen.due.append(found)
        else:
            seen.skipped.append(Skipped(provider, available, found))
    return seen


def draft_payouts(*, now: datetime, actor: Actor) -> DraftRun:
    """Reserve a payout for everyone who can be paid; a second run finds the open rows and does nothing."""
    run = DraftRun()
    for provider, available in _owed():
        found = _examine(provider, available, now)
        made = _reserve(found, actor, now) if isinstance(found, Due) else found
        if isinstance(made, Payout):
            run.payouts.append(made)
        else:
            run.skipped.append(Skipped(provider, available, made))
    return run


def _owed() -> list[tuple[Provider, int]]:
    available = balances.available_by_provider()
    rows = Provider.objects.select_related("organization").filter(public_id__in=available).order_by("pk")
    return [(provider, available[provider.public_id]) for provider in rows]


def _examine(provider: Provider, available: int, now: datetime) -> Due | Reason:
    """Decide from the provider, its open payouts, its balance and its account at Stripe, in this order."""
    if provider.kind == ProviderKind.HOUSE:
        return reasons.reason(reasons.HOUSE)
    if provider.state != ProviderState.APPROVED:
        return reasons.reason(reasons.NOT_APPROVED, provider.state)
    if Payout.objects.filter(provider=provider, state__in=OPEN_STATES).exists():
        return reasons.reason(reasons.OPEN_PAYOUT)
    amount = payable_minor(available - _debt(provider), settings.CURRENCY)
    if amount < settings.PAYOUT_MINIMUM_MINOR:
        return reasons.reason(reasons.BELOW_MINIMUM, f"{amount} of {settings.PAYOUT_MINIMUM_MINOR}")
    return _examine_account(provider, amount, now)


def _debt(provider: Provider) -> int:
    return balances.provider_balance(provider=provider.public_id).debt_nano


def _examine_account(provider: Provider, amount: int, now: datetime) -> Due | Reason:
    row = PayoutAccount.objects.filter(provider=provider, stripe_account__isnull=False).first()
    if row is None or row.stripe_account is None:
        return reasons.reason(reasons.NO_ACCOUNT)
    try:
        row = accounts.refresh(provider_id=provider.public_id, now=now)
        if not account_rules.is_payable(row.state):
            return reasons.reason(reasons.ACCOUNT, f"{row.state} {row.state_code}".strip())
        destination = row.stripe_account or ""
        if is_negative(destination):
            return reasons.reason(reasons.NEGATIVE)
    except PaymentError as error:
        return reasons.reason(reasons.STRIPE, error.stripe_code)
    return Due(provider=provider, amount_minor=amount, destination=destination)


def is_negative(destination: str) -> bool:
    """Tell whether Stripe would keep a transfer to repay what the account owes it."""
    return any(one.available_minor + one.pending_minor < 0 for one in stripe.payments().balances(account=destination))


def _reserve(due: Due, actor: Actor, now: datetime) -> Payout | Reason:
    """Take the money aside under the account's lock, in one transaction with the payout and its first attempt."""
    try:
        with transaction.atomic():
            amount = _locked_amount(due.provider)
            if amount < settings.PAYOUT_MINIMUM_MINOR:
                return reasons.reason(reasons.BELOW_MINIMUM, f"{amount} of {settings.PAYOUT_MINIMUM_MINOR}")
            payout = _new(due, amount, now)
            moves.post_reserved(payout, actor=actor, now=now)
            moves.add_attempt(payout, number=1, now=now)
            moves.move(payout, PayoutState.RESERVED, actor=actor, now=now)
            return payout
    except IntegrityError as error:
        if "payout_one" not in str(error):
            raise
        return reasons.reason(reasons.OPEN_PAYOUT)


def _locked_amount(provider: Provider) -> int:
    account = ledger.account(Kind.PROVIDER_AVAILABLE, provider.public_id, currency=settings.CURRENCY)
    locked = billing_locks.accounts([account.pk])[account.pk]
    return payable_minor(balances.free_of(locked) - _debt(provider), settings.CURRENCY)


def _new(due: Due, amount: int, now: datetime) -> Payout:
    last = Payout.objects.filter(provider=due.provider, currency=settings.CURRENCY).exclude(
        state__in=[PayoutState.REJECTED, PayoutState.CANCELED]
    )
    before = last.order_by("-period_end").values_list("period_end", flat=True).first()
    payout = Payout(
        provider=due.provider,
        currency=settings.CURRENCY,
        period_start=before or due.provider.created_at,
        period_end=now,
        amount_minor=amount,
        destination=due.destination,
        created_at=now,
        changed_at=now,
    )
    payout.approval_hash = approval.approval_hash(
        payout=payout.public_id, amount_minor=amount, currency=payout.currency, destination=payout.destination
    )
    payout.save(force_insert=True)
    return payout
