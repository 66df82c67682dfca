"""Whether a provider counts as identified: by Stripe, or by the operator who has checked its bank details."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.integrations import queue
from portal.payouts.models import CURRENT_STATES, BankAccount, BankAccountState, ChangeKind, PayoutAccount
from portal.payouts.rules import accounts as rules
from portal.payouts.rules import protection
from portal.payouts.services import destinations
from portal.payouts.services.destinations import Change
from portal.providers import locks as provider_locks
from portal.providers.models import Provider
from portal.providers.services import profile, review
from portal.providers.services.profile import Profile

_WHO_IS_PAID = frozenset({"legal_name", "country"})
_PROTECTED = ("legal_name", "country", "contact_email")


def settle(*, provider: Provider, now: datetime) -> bool:
    """Note inside the caller's transaction whether the provider is identified now; what was held then matures."""
    is_identified = _by_stripe(provider) or _by_operator(provider)
    review.set_identity(provider_id=provider.public_id, is_identified=is_identified, actor=SYSTEM_ACTOR, now=now)
    if is_identified:
        queue.after_commit("billing.release_held", provider=provider.public_id)
    return is_identified


@dataclass(frozen=True, slots=True)
class Who:
    """The person who changes a profile, and when they last used a second factor."""

    actor: Actor
    confirmed_at: datetime | None


def change_profile(*, provider_id: str, given: Profile, who: Who, now: datetime) -> Provider:
    """Change the profile. What a payout depends on needs a second factor, is told to old and new, and pauses payouts.

    A contact alone pauses nothing, but the old address hears of it. Raises SecondFactorNeeded, InvalidValue, NotFound.
    """
    with transaction.atomic():
        before = provider_locks.provider(provider_id)
        old = {name: getattr(before, name) for name in _PROTECTED}
        after = profile.update_profile(provider_id=provider_id, profile=given, actor=who.actor, now=now)
        changed = [name for name in _PROTECTED if old[name] != getattr(after, name)]
        if changed and is_protected(provider=after):
            protection.require_recent(who.confirmed_at, now=now)
            change = Change(
                ChangeKind.PROFILE,
                before=", ".join(str(old[name]) for name in changed),
                after=", ".join(str(getattr(after, name)) for name in changed),
                also_told=(str(old["contact_email"]),),
            )
            holds = bool(set(changed) & _WHO_IS_PAID)
            destinations.record(provider=after, change=change, holds=holds, actor=who.actor, now=now)
    return after


def is_protected(*, provider: Provider) -> bool:
    """Tell whether money already goes by this profile: an account is linked, or bank details are kept."""
    return (
        PayoutAccount.objects.filter(provider=provider, stripe_account__isnull=False).exists()
        or BankAccount.objects.filter(provider=provider, state__in=CURRENT_STATES).exists()
    )


def _by_stripe(provider: Provider) -> bool:
    rows = PayoutAccount.objects.filter(provider=provider, stripe_account__isnull=False)
    return rows.filter(state__in=sorted(rules.PAYABLE)).exists()


def _by_operator(provider: Provider) -> bool:
    return settings.MANUAL_PAYOUTS and (
        BankAccount.objects.filter(provider=provider, state=BankAccountState.VERIFIED).exists()
    )
