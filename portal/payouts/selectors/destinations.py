"""Where a provider's money goes, what changed about it, and until when payouts rest for it."""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db.models import Max, QuerySet

from portal.payouts.errors import BankAccountMissing
from portal.payouts.models import (
    CURRENT_STATES,
    BankAccount,
    BankAccountState,
    DestinationChange,
    Payout,
    PayoutAccount,
    PayoutState,
    Rail,
)
from portal.payouts.rules.reasons import CHANGE_HOLD
from portal.providers.models import Provider


def held_until(*, provider: Provider, now: datetime) -> datetime | None:
    """Return when the pause after the last change ends; None where there is none."""
    rows = DestinationChange.objects.filter(provider=provider, holds_until__gt=now)
    found: datetime | None = rows.aggregate(last=Max("holds_until"))["last"]
    return found


def changes_of(*, provider: Provider, limit: int = 50) -> QuerySet[DestinationChange]:
    """Return what changed, newest first."""
    return DestinationChange.objects.filter(provider=provider).order_by("-changed_at", "-pk")[:limit]


def bank_account_of(*, provider: Provider) -> BankAccount | None:
    """Return the provider's current bank details, whether or not they are checked."""
    return BankAccount.objects.filter(provider=provider, state__in=CURRENT_STATES).first()


def verified_bank_account(*, provider: Provider) -> BankAccount | None:
    """Return the bank details that payouts may go to."""
    return BankAccount.objects.filter(provider=provider, state=BankAccountState.VERIFIED).first()


def paid_by_bank(keys: Iterable[int]) -> set[int]:
    """Return those of the providers that are paid by bank transfer: the pool does it, and their details are checked."""
    if not settings.MANUAL_PAYOUTS:
        return set()
    rows = BankAccount.objects.filter(provider__in=keys, state=BankAccountState.VERIFIED)
    return set(rows.values_list("provider_id", flat=True))


def waiting_for_check(keys: Iterable[int]) -> set[int]:
    """Return those of the providers whose bank details an operator has yet to check."""
    if not settings.MANUAL_PAYOUTS:
        return set()
    rows = BankAccount.objects.filter(provider__in=keys, state=BankAccountState.SUBMITTED)
    return set(rows.values_list("provider_id", flat=True))


def held_providers(keys: Iterable[int], *, now: datetime) -> dict[int, datetime]:
    """Return until when payouts rest, for those of the providers whose destination was changed."""
    rows = DestinationChange.objects.filter(provider__in=keys, holds_until__gt=now).values("provider_id")
    found = rows.annotate(last=Max("holds_until")).order_by("provider_id")
    return {row["provider_id"]: row["last"] for row in found}


def last_bank_account(*, provider: Provider) -> BankAccount | None:
    """Return the last bank details, also refused ones, so that the provider reads why."""
    return BankAccount.objects.filter(provider=provider).order_by("-given_at", "-pk").first()


def bank_account(public_id: str) -> BankAccount:
    """Return bank details for the operator. Raises BankAccountMissing."""
    row = BankAccount.objects.select_related("provider__organization").filter(public_id=public_id).first()
    if row is None:
        raise BankAccountMissing("there are no such bank details", param="bank_account")
    return row


def bank_accounts_by_id(ids: Iterable[str]) -> dict[str, BankAccount]:
    """Return bank details by their public ids."""
    return {row.public_id: row for row in BankAccount.objects.filter(public_id__in=set(ids))}


def to_check(*, limit: int = 100) -> QuerySet[BankAccount]:
    """Return bank details that wait for an operator, oldest first."""
    rows = BankAccount.objects.select_related("provider__organization").filter(state=BankAccountState.SUBMITTED)
    return rows.order_by("given_at", "pk")[:limit]


def same_account(*, row: BankAccount, limit: int = 20) -> QuerySet[BankAccount]:
    """Return other providers' rows that name the same account."""
    rows = BankAccount.objects.select_related("provider").filter(fingerprint=row.fingerprint)
    return rows.exclude(provider=row.provider_id).order_by("given_at", "pk")[:limit]


def is_current(*, payout: Payout) -> bool:
    """Tell whether the payout still goes where its provider is paid now."""
    if payout.rail == Rail.MANUAL:
        return BankAccount.objects.filter(public_id=payout.destination, state=BankAccountState.VERIFIED).exists()
    return PayoutAccount.objects.filter(provider=payout.provider, stripe_account=payout.destination).exists()


def to_resume(*, now: datetime, limit: int = 200) -> list[int]:
    """Return payouts that were held for a change whose pause is over, oldest first."""
    resting = DestinationChange.objects.filter(holds_until__gt=now).values("provider")
    rows = Payout.objects.filter(state=PayoutState.HELD, state_reason__startswith=CHANGE_HOLD)
    return list(rows.exclude(provider__in=resting).order_by("pk").values_list("pk", flat=True)[:limit])
