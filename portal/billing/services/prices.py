"""Sets prices and shares from now or a later moment on; a version never changes once it is written."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.errors import PriceInThePast, UnsoundPrice
from portal.billing.models import PriceVersion, ShareTier, ShareVersion
from portal.billing.rules.rating import PriceTerms
from portal.billing.selectors.price_versions import standing
from portal.catalog.models import CatalogModel
from portal.core import db
from portal.core.errors import Conflict
from portal.core.money import BPS
from portal.integrations import bus
from portal.providers.models import Provider

HIGHEST_NANO = 10**15  # a million units of the currency for a million tokens: beyond it is a slip of the hand


@dataclass(frozen=True, slots=True)
class Agreed:
    """Whose price it is in place of the public one, and from when it holds no more (None: until further notice)."""

    organization: Organization
    until: datetime | None = None


def set_price(  # noqa: PLR0913  these are the terms of one price
    *,
    model: CatalogModel,
    terms: PriceTerms,
    actor: Actor,
    now: datetime,
    effective_from: datetime | None = None,
    provider: Provider | None = None,
    agreed: Agreed | None = None,
) -> PriceVersion:
    """Write the model's next public price, the provider's next one for its private nodes, or what is agreed with an
    organization.

    Raises UnsoundPrice, PriceInThePast, Conflict for a taken moment.
    """
    require_sound(terms)
    starts = _start(effective_from, now)
    organization = agreed.organization if agreed else None
    until = _end(agreed, starts)
    scope = _scope(provider, organization)
    with db.advisory_lock(f"poolhouse.billing.price.{model.pk}.{scope}"):
        rows = {"model": model, "provider": provider, "organization": organization}
        if standing().filter(**rows, effective_from=starts).exists():
            raise Conflict(
                f"{model.public_id} already has a price from {starts.isoformat()}", fix="choose a later time"
            )
        last = PriceVersion.objects.filter(**rows).aggregate(last=Max("version"))["last"] or 0
        version = PriceVersion.objects.create(
            **rows,
            version=last + 1,
            prompt_nano_per_mtok=terms.prompt_nano_per_mtok,
            cached_nano_per_mtok=terms.cached_nano_per_mtok,
            completion_nano_per_mtok=terms.completion_nano_per_mtok,
            request_nano=terms.request_nano,
            effective_from=starts,
            effective_until=until,
            created_at=now,
            created_by=actor.public_id,
        )
        audit.record(
            actor=actor,
            event="price.set",
            subject=model.public_id,
            now=now,
            organization=organization.public_id if organization else "",
            detail={"version": version.version, "effective_from": starts.isoformat(), "scope": scope}
            | ({"effective_until": until.isoformat()} if until else {}),
        )
        bus.announce("prices", model.public_id)
    return version


def set_share(
    *,
    provider: Provider | None,
    share_bps: int | None,
    actor: Actor,
    now: datetime,
    effective_from: datetime | None = None,
    tier: ShareTier | None = None,
) -> ShareVersion:
    """Write a provider's next share, a tier's, or without both the pool's; None ends a provider's or a tier's own.

    Raises UnsoundPrice, PriceInThePast, Conflict.
    """
    _require_share(share_bps, is_default=provider is None and tier is None)
    if provider is not None and tier is not None:
        raise UnsoundPrice("a share is a provider's or a tier's", param="tier", fix="choose one of the two")
    starts = _start(effective_from, now)
    subject = provider.public_id if provider else (f"tier {tier.name}" if tier else "pool")
    with db.advisory_lock(f"poolhouse.billing.share.{subject}"):
        if ShareVersion.objects.filter(provider=provider, tier=tier, effective_from=starts).exists():
            raise Conflict(f"{subject} already has a share from {starts.isoformat()}", fix="choose a later time")
        version = ShareVersion.objects.create(
            provider=provider,
            tier=tier,
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


def _require_share(share_bps: int | None, *, is_default: bool) -> None:
    if share_bps is None:
        if is_default:
            raise UnsoundPrice("the pool's default share must be stated", param="share_bps")
    elif not 0 <= share_bps <= BPS:
        raise UnsoundPrice(f"{share_bps} basis points is not within 0 and {BPS}", param="share_bps")


def _scope(provider: Provider | None, organization: Organization | None) -> str:
    if provider is not None and organization is not None:
        raise UnsoundPrice("a price is a provider's or an organization's", param="organization")
    owner = provider or organization
    return owner.public_id if owner else "public"


def _start(effective_from: datetime | None, now: datetime) -> datetime:
    starts = effective_from or now
    if starts < now:
        raise PriceInThePast(f"{starts.isoformat()} has passed", param="effective_from", fix="choose a later time")
    return starts


def _end(agreed: Agreed | None, starts: datetime) -> datetime | None:
    until = agreed.until if agreed else None
    if until is not None and until <= starts:
        raise UnsoundPrice("an agreement ends after it has begun", param="effective_until", fix="choose a later end")
    return until
