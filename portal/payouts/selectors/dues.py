"""What each provider is owed, and why it would not be paid, as far as it is known here without asking Stripe.

All providers are read together, in a handful of queries.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Max, Q

from portal.billing.selectors import balances
from portal.billing.selectors.balances import ProviderBalance
from portal.core import money
from portal.nodes.models import Node, NodeState
from portal.payouts.models import OPEN_STATES, Payout, PayoutPlan, PayoutState
from portal.payouts.rules import amounts, fees, minimums, reasons, schedule
from portal.payouts.rules.fees import FeeTerms, Parts
from portal.payouts.rules.reasons import Reason
from portal.payouts.rules.schedule import Rhythm
from portal.payouts.selectors.destinations import paid_by_bank
from portal.providers.models import Provider, ProviderKind, ProviderState


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider with its balance and its wishes; `has_left` is set once none of its nodes is in the pool any more."""

    provider: Provider
    balance: ProviderBalance
    own: Rhythm
    has_left: bool
    has_open: bool
    last_drafted_at: datetime | None
    is_paid_by_bank: bool = False
    wish_minor: int = 0

    @property
    def is_final(self) -> bool:
        """Whether what is left is paid out below the minimum: it has left and nothing matures any more."""
        return self.has_left and not self.balance.pending_nano and not self.balance.held_nano

    @property
    def payable_nano(self) -> int:
        """What is available and not owed back."""
        return self.balance.available_nano - self.balance.debt_nano

    def is_due(self, now: datetime) -> bool:
        """Tell whether the schedule drafts it now."""
        return self.is_final or schedule.is_due(self.own, last_drafted_at=self.last_drafted_at, now=now)


def pool_rhythm() -> Rhythm:
    """Return the pool's own schedule."""
    return Rhythm(settings.PAYOUT_SCHEDULE, settings.PAYOUT_DAY, settings.PAYOUT_THRESHOLD_MINOR)


def fee_terms() -> FeeTerms:
    """Return what Stripe takes and who bears it."""
    return FeeTerms(settings.PAYOUT_FEE_FIXED_MINOR, settings.PAYOUT_FEE_BPS, settings.PAYOUT_FEE_BEARER == "provider")


def candidates(providers: Iterable[Provider]) -> list[Candidate]:
    """Return what is known of each provider, in their order."""
    asked = list(providers)
    keys = [provider.pk for provider in asked]
    owed = balances.provider_balances(providers=[provider.public_id for provider in asked])
    plans = {plan.provider_id: plan for plan in PayoutPlan.objects.filter(provider__in=keys)}
    seen, living, by_bank = _payouts(keys), _living(keys), paid_by_bank(keys)
    found = [
        _candidate(provider, owed[provider.public_id], plans.get(provider.pk), living.get(provider.pk), seen)
        for provider in asked
    ]
    return [replace(one, is_paid_by_bank=one.provider.pk in by_bank) for one in found]


def candidate(provider: Provider) -> Candidate:
    """Return what is known of one provider."""
    return candidates([provider])[0]


def owed(*, limit: int | None = None) -> list[Candidate]:
    """Return everyone who has an available balance, in a fixed order."""
    available = balances.available_by_provider()
    rows = Provider.objects.select_related("organization").filter(public_id__in=available).order_by("pk")
    return candidates(rows[:limit] if limit else rows)


def parts_of(candidate: Candidate, payable_nano: int) -> Parts:
    """Divide a payable balance into what is sent and what the provider bears of Stripe's fee."""
    payable = amounts.payable_minor(payable_nano, settings.CURRENCY)
    terms = FeeTerms(0, 0, is_borne_by_provider=False) if candidate.is_paid_by_bank else fee_terms()
    return fees.parts(payable, terms, step=amounts.step_minor(settings.CURRENCY))


def smallest(candidate: Candidate) -> int:
    """Return the smallest payout to this provider, in minor units."""
    country, given = candidate.provider.country, settings.PAYOUT_COUNTRY_MINIMUMS
    if candidate.is_final:
        floor = minimums.floor_minor(currency=settings.CURRENCY, country=country, given=given)
        return min(floor, _pool_smallest(candidate, country, given))
    return _pool_smallest(candidate, country, given)


def _pool_smallest(candidate: Candidate, country: str, given: Mapping[str, int]) -> int:
    return minimums.smallest_minor(
        currency=settings.CURRENCY,
        country=country,
        pool_minor=settings.PAYOUT_MINIMUM_MINOR,
        wish_minor=candidate.wish_minor,
        given=given,
    )


def reason(candidate: Candidate) -> Reason | None:
    """Return why the provider would not be paid, or None; the account at Stripe is not looked at."""
    provider = candidate.provider
    if provider.kind == ProviderKind.HOUSE:
        return reasons.reason(reasons.HOUSE)
    if provider.state != ProviderState.APPROVED:
        return reasons.reason(reasons.NOT_APPROVED, provider.state)
    if candidate.has_open:
        return reasons.reason(reasons.OPEN_PAYOUT)
    return too_little(candidate, parts_of(candidate, candidate.payable_nano).sent_minor)


def too_little(candidate: Candidate, sent_minor: int) -> Reason | None:
    """Return why an amount is too small to be sent, or None."""
    least = smallest(candidate)
    if sent_minor >= least and sent_minor > 0:
        return None
    figures = f"{sent_minor} of {least}"
    if candidate.has_left and not candidate.is_final:
        left = money.decimal_text(candidate.balance.pending_nano)
        return reasons.reason(reasons.NOT_MATURED, f"{left} {settings.CURRENCY.upper()} still mature")
    if sent_minor < settings.PAYOUT_MINIMUM_MINOR or candidate.is_final:
        return reasons.reason(reasons.BELOW_MINIMUM, figures)
    if sent_minor < candidate.wish_minor:
        return reasons.reason(reasons.BELOW_THRESHOLD, figures)
    return reasons.reason(reasons.COUNTRY_MINIMUM, figures)


def _payouts(keys: list[int]) -> dict[int, tuple[bool, datetime | None]]:
    """Return of each provider whether a payout is open, and when the last one was drafted that was not given up."""
    given_up = Q(state__in=[PayoutState.REJECTED, PayoutState.CANCELED])
    rows = (
        Payout.objects.filter(provider__in=keys)
        .values("provider_id")
        .annotate(open=Count("pk", filter=Q(state__in=OPEN_STATES)), last=Max("created_at", filter=~given_up))
        .order_by("provider_id")
    )
    return {row["provider_id"]: (row["open"] > 0, row["last"]) for row in rows}


def _living(keys: list[int]) -> dict[int, int]:
    """Return of each provider that ever had nodes how many of them are in the pool now."""
    rows = (
        Node.objects.filter(provider__in=keys)
        .values("provider_id")
        .annotate(living=Count("pk", filter=~Q(state=NodeState.RETIRED)))
        .order_by("provider_id")
    )
    return {row["provider_id"]: row["living"] for row in rows}


def _candidate(
    provider: Provider,
    balance: ProviderBalance,
    plan: PayoutPlan | None,
    living: int | None,
    payouts: dict[int, tuple[bool, datetime | None]],
) -> Candidate:
    has_open, last = payouts.get(provider.pk, (False, None))
    own = schedule.rhythm(
        pool=pool_rhythm(),
        schedule=plan.schedule if plan else "",
        threshold_minor=plan.threshold_minor if plan else None,
    )
    return Candidate(
        provider=provider,
        balance=balance,
        own=own,
        has_left=living == 0 or (not living and plan is not None and plan.left_at is not None),
        has_open=has_open,
        last_drafted_at=last,
        wish_minor=(plan.threshold_minor if plan else None) or schedule.wish_minor(own),
    )
