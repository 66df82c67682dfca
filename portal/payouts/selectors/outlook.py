"""What the next run will do for a provider, as far as it is known here without asking Stripe."""

from dataclasses import dataclass
from datetime import datetime

from portal.payouts.models import PayoutAccount
from portal.payouts.rules import accounts as account_rules
from portal.payouts.rules import reasons
from portal.payouts.rules.reasons import Reason
from portal.payouts.rules.schedule import Rhythm
from portal.payouts.selectors import destinations, dues
from portal.payouts.selectors.dues import Candidate
from portal.providers.models import Provider


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is available, what would be sent of it, its fee and who bears it, and why not where nothing would be."""

    provider: Provider
    available_nano: int
    amount_minor: int
    fee_minor: int
    borne_minor: int
    smallest_minor: int
    own: Rhythm
    has_left: bool
    is_final: bool
    reason: Reason | None


def outlook(*, provider: Provider, now: datetime) -> Outlook:
    """Return the outlook of one provider."""
    return _outlooks([dues.candidate(provider)], now)[0]


def outlooks(*, now: datetime, limit: int = 200) -> list[Outlook]:
    """Return the outlook of everyone who is owed money, those who cannot be paid first."""
    found = _outlooks(dues.owed(limit=limit), now)
    return sorted(found, key=lambda one: (one.reason is None, -one.amount_minor, one.provider.pk))


def _outlooks(candidates: list[Candidate], now: datetime) -> list[Outlook]:
    keys = [one.provider.pk for one in candidates]
    rows = PayoutAccount.objects.filter(provider__in=keys, stripe_account__isnull=False)
    accounts = {row.provider_id: row for row in rows}
    held, unchecked = destinations.held_providers(keys, now=now), destinations.waiting_for_check(keys)
    return [_outlook(one, accounts.get(one.provider.pk), held.get(one.provider.pk), unchecked) for one in candidates]


def _outlook(
    one: Candidate, account: PayoutAccount | None, held_until: datetime | None, unchecked: set[int]
) -> Outlook:
    parts = dues.parts_of(one, one.payable_nano)
    return Outlook(
        provider=one.provider,
        available_nano=one.balance.available_nano,
        amount_minor=parts.sent_minor,
        fee_minor=parts.fee_minor,
        borne_minor=parts.borne_minor,
        smallest_minor=dues.smallest(one),
        own=one.own,
        has_left=one.has_left,
        is_final=one.is_final,
        reason=dues.reason(one) or _destination_reason(one, account, held_until, unchecked),
    )


def _destination_reason(
    one: Candidate, row: PayoutAccount | None, held_until: datetime | None, unchecked: set[int]
) -> Reason | None:
    if held_until is not None:
        return reasons.reason(reasons.CHANGED, f"until {held_until:%Y-%m-%d %H:%M} UTC")
    if one.is_paid_by_bank:
        return None
    if row is None:
        return reasons.reason(reasons.BANK_UNCHECKED if one.provider.pk in unchecked else reasons.NO_ACCOUNT)
    return None if account_rules.is_payable(row.state) else reasons.reason(reasons.ACCOUNT, row.state)
