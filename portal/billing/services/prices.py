"""Sets prices and shares from now or a later moment on; a version never changes once it is written."""

from datetime import datetime

from django.db.models import Max

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.errors import PriceInThePast, UnsoundPrice
from portal.billing.models import PriceVersion, ShareVersion
from portal.billing.rules.rating import PriceTerms
from portal.catalog.models import CatalogModel
from portal.core import db
from portal.core.errors import Conflict
from portal.core.money import BPS
from portal.integrations import bus
from portal.providers.models import Provider

HIGHEST_NANO = 10**15  # a million units of the currency for a million tokens: beyond it is a slip of the hand


def set_price(
    *,
    model: CatalogModel,
    terms: PriceTerms,
    actor: Actor,
    now: datetime,
    effective_from: datetime | None = None,
    provider: Provider | None = None,
) -> PriceVersion:
    """Write the model's next public price, or the provider's next one for its private nodes.

    Raises UnsoundPrice, PriceInThePast, Conflict for a taken moment.
    """
    require_sound(terms)
    starts = _start(effective_from, now)
    scope = provider.public_id if provider else "public"
    with db.advisory_lock(f"poolhouse.billing.price.{model.pk}.{scope}"):
        versions = PriceVersion.objects.filter(model=model, provider=provider)
        if versions.filter(effective_from=starts).exists():
            raise Conflict(
                f"{model.public_id} already has a price from {starts.isoformat()}", fix="choose a later time"
            )
        version = PriceVersion.objects.create(
            model=model,
            provider=provider,
            version=(versions.aggregate(last=Max("version"))["last"] or 0) + 1,
            prompt_nano_per_mtok=terms.prompt_nano_per_mtok,
            cached_nano_per_mtok=terms.cached_nano_per_mtok,
            completion_nano_per_mtok=terms.completion_nano_per_mtok,
            request_nano=terms.request_nano,
            effective_from=starts,
            created_at=now,
            created_by=actor.public_id,
        )
        audit.record(
            actor=actor,
            event="price.set",
            subject=model.public_id,
            now=now,
            detail={"version": version.version, "effective_from": starts.isoformat(), "scope": scope},
        )
        bus.announce("prices", model.public_id)
    return version


def set_share(
    *,
    provider: Provider | None,
    share_bps: int,
    actor: Actor,
    now: datetime,
    effective_from: datetime | None = None,
) -> ShareVersion:
    """Write a provider's next share, without one the pool's. Raises UnsoundPrice, PriceInThePast, Conflict."""
    if not 0 <= share_bps <= BPS:
        raise UnsoundPrice(f"a share of {share_bps} basis points is not within 0 and {BPS}", param="share_bps")
    starts = _start(effective_from, now)
    subject = provider.public_id if provider else "pool"
    with db.advisory_lock(f"poolhouse.billing.share.{subject}"):
        if ShareVersion.objects.filter(provider=provider, effective_from=starts).exists():
            raise Conflict(f"{subject} already has a share from {starts.isoformat()}", fix="choose a later time")
        version = ShareVersion.objects.create(
            provider=provider,
            share_bps=share_bps,
            effective_from=starts,
            created_at=now,
            created_by=actor.public_id,
        )
        audit.record(
            actor=actor,
            event="share.set",
            subject=subject,
            now=now,
            detail={"share_bps": share_bps, "effective_from": starts.isoformat()},
        )
        bus.announce("shares", subject)
    return version


def require_sound(terms: PriceTerms) -> None:
    """Refuse a price that cannot be sold. Raises UnsoundPrice."""
    fields = ("prompt_nano_per_mtok", "cached_nano_per_mtok", "completion_nano_per_mtok", "request_nano")
    for name in fields:
        if not 0 <= getattr(terms, name) <= HIGHEST_NANO:
            raise UnsoundPrice(f"{name} must lie within 0 and {HIGHEST_NANO}", param=name)
    if terms.cached_nano_per_mtok > terms.prompt_nano_per_mtok:
        raise UnsoundPrice(
            "a cached token may not cost more than a fresh one: holds are bounded by the prompt price",
            param="cached_nano_per_mtok",
        )


def _start(effective_from: datetime | None, now: datetime) -> datetime:
    starts = effective_from or now
    if starts < now:
        raise PriceInThePast(f"{starts.isoformat()} has passed", param="effective_from", fix="choose a later time")
    return starts
