"""A provider's own bank details for payouts by bank transfer: given with care, checked by an operator, kept sealed."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.services.organizations import require_active
from portal.accounts.services.owners import tell_owners
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core import sealing
from portal.core.errors import InvalidValue
from portal.payouts import locks
from portal.payouts.errors import BankAccountMissing, BankDetailsInvalid, ManualRailClosed, PayoutOpenToAccount
from portal.payouts.models import (
    CURRENT_STATES,
    OPEN_STATES,
    BankAccount,
    BankAccountState,
    ChangeKind,
    Payout,
    PayoutAccount,
)
from portal.payouts.rules import bank_details, protection
from portal.payouts.rules.bank_details import BankDetails
from portal.payouts.selectors import destinations as selectors
from portal.payouts.services import accounts, destinations, identity
from portal.payouts.services.destinations import Change
from portal.providers import locks as provider_locks
from portal.providers.models import Provider

PURPOSE = "bank_details"


@dataclass(frozen=True, slots=True)
class Given:
    """Bank details as they were typed."""

    scheme: str
    holder: str
    account: str
    bank: str


def give(
    *, provider: Provider, given: Given, confirmed_at: datetime | None, actor: Actor, now: datetime
) -> BankAccount:
    """Take bank details in; they replace earlier ones and are paid to once an operator has checked them.

    Raises SecondFactorNeeded, ManualRailClosed, CountryNotPayable, HouseIsNotPaid, BankDetailsInvalid,
    PayoutOpenToAccount.
    """
    protection.require_recent(confirmed_at, now=now)
    _require_open(provider)
    found = bank_details.check(scheme=given.scheme, account=given.account, bank=given.bank, country=provider.country)
    if not given.holder.strip():
        raise BankDetailsInvalid("give the name of the account's holder", param="holder")
    with transaction.atomic():
        owner = provider_locks.provider(provider.public_id)
        require_active(owner.organization)
        before = _end_current(owner, BankAccountState.REPLACED, now)
        row = BankAccount.objects.create(
            provider=owner,
            scheme=found.scheme,
            holder=given.holder.strip()[:140],
            country=found.country,
            currency=settings.CURRENCY,
            details=sealing.seal(found.text, purpose=PURPOSE),
            last4=found.last4,
            fingerprint=sealing.fingerprints(found.identity, purpose=PURPOSE)[0],
            given_by=actor.public_id,
            given_at=now,
        )
        is_change = (
            before is not None or PayoutAccount.objects.filter(provider=owner, first_active_at__isnull=False).exists()
        )
        change = Change(ChangeKind.BANK_GIVEN, before=str(before or ""), after=str(row))
        destinations.record(provider=owner, change=change, holds=is_change, actor=actor, now=now)
        identity.settle(provider=owner, now=now)
    return row


def withdraw(*, provider: Provider, confirmed_at: datetime | None, actor: Actor, now: datetime) -> BankAccount:
    """Take the bank details back; payouts go to the account at Stripe from then on, after a pause.

    Raises SecondFactorNeeded, BankAccountMissing, PayoutOpenToAccount.
    """
    protection.require_recent(confirmed_at, now=now)
    with transaction.atomic():
        owner = provider_locks.provider(provider.public_id)
        row = _end_current(owner, BankAccountState.WITHDRAWN, now)
        if row is None:
            raise BankAccountMissing("no bank details are kept")
        change = Change(ChangeKind.BANK_WITHDRAWN, before=str(row))
        destinations.record(provider=owner, change=change, holds=True, actor=actor, now=now)
        identity.settle(provider=owner, now=now)
    return row


def verify(*, bank_account: str, actor: Actor, now: datetime) -> BankAccount:
    """Say, as an operator, that holder and account belong to the provider: payouts may go there, and it is identified.

    Raises BankAccountMissing, ManualRailClosed.
    """
    if not settings.MANUAL_PAYOUTS:
        raise ManualRailClosed("this pool pays by Stripe only", fix="set MANUAL_PAYOUTS=1")
    return _decide(bank_account, BankAccountState.VERIFIED, "", actor, now)


def refuse(*, bank_account: str, reason: str, actor: Actor, now: datetime) -> BankAccount:
    """Refuse bank details, with the reason that the provider reads. Raises BankAccountMissing, InvalidValue."""
    if not reason.strip():
        raise InvalidValue("give the reason; the provider will read it", param="reason")
    return _decide(bank_account, BankAccountState.REFUSED, reason.strip()[:240], actor, now)


def reveal(*, bank_account: str, purpose: str, actor: Actor, now: datetime) -> BankDetails:
    """Return the whole details to an operator; who saw them, when and for what is kept. Raises BankAccountMissing."""
    with transaction.atomic():
        row = selectors.bank_account(bank_account)
        audit.record(
            actor=actor,
            event="bank_account.shown",
            subject=row.public_id,
            now=now,
            organization=row.provider.organization.public_id,
            detail={"provider": row.provider.public_id, "purpose": purpose},
        )
    return details_of(row)


def details_of(row: BankAccount) -> BankDetails:
    """Return what was sealed; the caller records who sees it. Raises SealBroken."""
    return bank_details.from_text(sealing.unseal(row.details, purpose=PURPOSE))


def _require_open(provider: Provider) -> None:
    if not settings.MANUAL_PAYOUTS:
        raise ManualRailClosed("this pool pays by Stripe only", fix="set up payouts at Stripe")
    accounts.require_payable(provider=provider)


def _end_current(provider: Provider, state: BankAccountState, now: datetime) -> BankAccount | None:
    """End the current details; never while a payout is on its way to them. Raises PayoutOpenToAccount."""
    row = BankAccount.objects.select_for_update().filter(provider=provider, state__in=CURRENT_STATES).first()
    if row is None:
        return None
    found = Payout.objects.filter(provider=provider, destination=row.public_id, state__in=OPEN_STATES).first()
    if found is not None:
        raise PayoutOpenToAccount(
            f"{found.public_id} is {found.get_state_display().lower()} and goes to this account",
            fix="wait until it has ended, or ask the operator to cancel it",
        )
    row.state, row.decided_at = state, now
    row.save(update_fields=["state", "decided_at"])
    return row


def _decide(public_id: str, state: BankAccountState, reason: str, actor: Actor, now: datetime) -> BankAccount:
    found = selectors.bank_account(public_id)
    with transaction.atomic():
        provider_locks.provider(found.provider.public_id)
        row = locks.bank_account(public_id)
        if row.state not in CURRENT_STATES:
            raise BankAccountMissing(f"these bank details are {row.get_state_display().lower()}", param="bank_account")
        row.state, row.reason, row.decided_by, row.decided_at = state, reason, actor.public_id, now
        row.save(update_fields=["state", "reason", "decided_by", "decided_at"])
        identity.settle(provider=row.provider, now=now)
        audit.record(
            actor=actor,
            event=f"bank_account.{state.value}",
            subject=row.public_id,
            now=now,
            organization=row.provider.organization.public_id,
            detail={"provider": row.provider.public_id, "last4": row.last4, "reason": reason},
        )
        tell_owners(
            organization=row.provider.organization,
            key=f"bank-account:{row.public_id}:{state.value}",
            template="bank_account_decided",
            context={"account": str(row), "is_verified": state == BankAccountState.VERIFIED, "reason": reason},
            now=now,
            also=[row.provider.contact_email],
        )
    return row
