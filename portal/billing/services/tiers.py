"""An operator sets a provider's trust tier, or lets the facts decide again; it holds for what is earned then."""

from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.models import TierPin
from portal.billing.rules.trust_tiers import Tier
from portal.core.errors import InvalidValue
from portal.providers import locks as provider_locks
from portal.providers.models import Provider


def pin_tier(*, provider_id: str, tier: Tier, reason: str, actor: Actor, now: datetime) -> TierPin:
    """Set the tier, with the reason that the provider reads. Raises InvalidValue."""
    if not reason.strip():
        raise InvalidValue("give the reason; the provider will read it", param="reason")
    with transaction.atomic():
        provider = provider_locks.provider(provider_id)
        before = TierPin.objects.filter(provider=provider).first()
        pin, _ = TierPin.objects.update_or_create(
            provider=provider,
            defaults={
                "tier": tier.value,
                "reason": reason.strip()[:240],
                "pinned_by": actor.public_id,
                "pinned_at": now,
            },
        )
        _record(provider, before.tier if before else "", tier.value, actor, now)
    return pin


def unpin_tier(*, provider_id: str, actor: Actor, now: datetime) -> None:
    """Let the facts decide again; where nothing was set nothing changes."""
    with transaction.atomic():
        provider = provider_locks.provider(provider_id)
        pin = TierPin.objects.filter(provider=provider).first()
        if pin is not None:
            pin.delete()
            _record(provider, pin.tier, "", actor, now)


def _record(provider: Provider, before: str, after: str, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event="provider.tier_set" if after else "provider.tier_unset",
        subject=provider.public_id,
        now=now,
        organization=provider.organization.public_id,
        detail={"before": before, "after": after},
    )
