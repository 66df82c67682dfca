"""Providers' trust tiers, and the hold and the reserve that follow from them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from django.conf import settings
from django.db.models import Min

from portal.billing.models import EarningDay, TierPin
from portal.billing.rules import trust_tiers as rules
from portal.billing.rules.trust_tiers import Tier, TierFacts
from portal.providers.models import Provider
from portal.trust.selectors import evidence


@dataclass(frozen=True, slots=True)
class Standing:
    """A provider's tier, whether an operator has set it, what it would be by the facts, and its terms."""

    tier: Tier
    earned_tier: Tier
    facts: TierFacts
    pin: TierPin | None
    hold_days: int
    reserve_bps: int

    @property
    def because(self) -> str:
        """Say in one sentence why it is this tier."""
        return self.pin.reason if self.pin else rules.TERMS[self.tier].text


def standings(providers: Iterable[Provider], *, now: datetime) -> dict[str, Standing]:
    """Return the standing of each provider by its public id, in a handful of queries however many they are."""
    asked = {provider.pk: provider for provider in providers}
    days = _first_days(asked)
    hours = evidence.hostile_hours(providers=asked, since=now - rules.EVIDENCE_COUNTS_FOR)
    pins = {pin.provider_id: pin for pin in TierPin.objects.filter(provider__in=asked)}
    return {
        provider.public_id: _standing(
            TierFacts(days.get(pk), provider.is_identified, hours.get(pk, 0)), pins.get(pk), now
        )
        for pk, provider in asked.items()
    }


def standing(provider: Provider, *, now: datetime) -> Standing:
    """Return one provider's standing."""
    return standings([provider], now=now)[provider.public_id]


def _first_days(providers: Iterable[int]) -> dict[int, date]:
    rows = EarningDay.objects.filter(provider_id__in=list(providers)).values("provider_id").annotate(first=Min("day"))
    return {row["provider_id"]: row["first"] for row in rows.order_by("provider_id")}


def _standing(facts: TierFacts, pin: TierPin | None, now: datetime) -> Standing:
    earned = rules.tier_of(facts, on=now.astimezone(UTC).date())
    tier = Tier(pin.tier) if pin else earned
    base_bps = settings.PAYOUT_RESERVE_BPS if settings.PAYOUT_RESERVE_DAYS else 0
    return Standing(
        tier=tier,
        earned_tier=earned,
        facts=facts,
        pin=pin,
        hold_days=rules.hold_days(tier, base_days=settings.PAYOUT_HOLD_DAYS),
        reserve_bps=rules.reserve_bps(tier, base_bps=base_bps),
    )
