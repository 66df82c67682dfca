"""Makes tiers and moves providers between them, from now or a later moment on."""

from datetime import datetime

from django.db import IntegrityError, transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.errors import PriceInThePast
from portal.billing.models import ShareTier, TierMembership
from portal.core import db
from portal.core.errors import Conflict, InvalidValue
from portal.integrations import bus
from portal.providers.models import Provider

_LETTERS = 40


def make_tier(*, name: str, actor: Actor, now: datetime) -> ShareTier:
    """Add a tier under the operator's own name for it. Raises InvalidValue, Conflict."""
    wanted = " ".join(name.split())
    if not 0 < len(wanted) <= _LETTERS or not wanted.isprintable():
        raise InvalidValue(f"a tier's name has 1 to {_LETTERS} letters", param="name")
    if ShareTier.objects.filter(name__iexact=wanted).exists():
        raise Conflict(f"there is a tier named {wanted} already", fix="choose another name")
    with transaction.atomic():
        try:
            with transaction.atomic():
                tier = ShareTier.objects.create(name=wanted, created_at=now, created_by=actor.public_id)
        except IntegrityError as error:
            raise Conflict(f"there is a tier named {wanted} already", fix="choose another name") from error
        audit.record(actor=actor, event="share_tier.made", subject=f"tier {wanted}", now=now)
    return tier


def move_provider(
    *,
    provider: Provider,
    tier: ShareTier | None,
    actor: Actor,
    now: datetime,
    effective_from: datetime | None = None,
) -> TierMembership:
    """Put a provider into a tier, or into none, from a moment on. Raises PriceInThePast, Conflict."""
    starts = effective_from or now
    if starts < now:
        raise PriceInThePast(f"{starts.isoformat()} has passed", param="effective_from", fix="choose a later time")
    with db.advisory_lock(f"poolhouse.billing.tier.{provider.public_id}"):
        if TierMembership.objects.filter(provider=provider, effective_from=starts).exists():
            raise Conflict(f"{provider.public_id} already moves at {starts.isoformat()}", fix="choose a later time")
        member = TierMembership.objects.create(
            provider=provider, tier=tier, effective_from=starts, created_at=now, created_by=actor.public_id
        )
        audit.record(
            actor=actor,
            event="share_tier.moved",
            subject=provider.public_id,
            now=now,
            organization=provider.organization.public_id,
            detail={"tier": tier.name if tier else None, "effective_from": starts.isoformat()},
        )
        bus.announce("shares", provider.public_id)
    return member
