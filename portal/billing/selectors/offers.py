"""What a visitor or an organization pays for each offered model: now, from which later moment on, and before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from portal.billing.models import PriceVersion
from portal.billing.selectors import prices
from portal.billing.selectors.price_versions import PUBLIC, standing, until_of
from portal.catalog.models import CatalogModel, ModelState
from portal.catalog.selectors import models

_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Coming:
    """A price that will hold; without one an agreement ends then and the public price holds again."""

    at: datetime
    price: PriceVersion | None


@dataclass(frozen=True, slots=True)
class Offer:
    """One model: its public price, what was agreed with the organization, and what comes."""

    model: CatalogModel
    public: PriceVersion
    own: PriceVersion | None
    own_until: datetime | None
    coming: Sequence[Coming]

    @property
    def price(self) -> PriceVersion:
        """What is paid now."""
        return self.own or self.public


def offers(*, now: datetime, organization_id: int | None = None) -> list[Offer]:
    """Return the offered models that have a price, by public id."""
    public = prices.prices_at(at=now)
    own = {} if organization_id is None else prices.own_prices_at(organization_id=organization_id, at=now)
    coming: dict[int, list[PriceVersion]] = {}
    for row in prices.all_upcoming(now=now, limit=_SHOWN):
        coming.setdefault(row.model_id, []).append(row)
    agreed: dict[int, list[PriceVersion]] = {}
    if organization_id is not None:
        for row in prices.own_upcoming(organization_id=organization_id, now=now, limit=_SHOWN):
            agreed.setdefault(row.model_id, []).append(row)
    return [
        _offer(row, public[row.pk], own.get(row.pk), coming.get(row.pk, []), agreed.get(row.pk, []))
        for row in models.offered_models()[:_SHOWN]
        if row.pk in public
    ]


def offer(*, model_id: str, now: datetime) -> Offer | None:
    """Return one model by its public id, a retired one too: who used it looks up what it cost. None for a draft and
    where there is none or it has no price."""
    row = CatalogModel.objects.exclude(state=ModelState.DRAFT).filter(public_id=model_id).first()
    if row is None:
        return None
    begun = standing().filter(PUBLIC, model=row, effective_from__lte=now)
    public = begun.order_by("-effective_from", "-id").first()
    if public is None:
        return None
    coming = standing().filter(PUBLIC, model=row, effective_from__gt=now).order_by("effective_from", "id")
    return _offer(row, public, None, list(coming), [])


def _offer(
    model: CatalogModel,
    public: PriceVersion,
    own: PriceVersion | None,
    coming: list[PriceVersion],
    agreed: list[PriceVersion],
) -> Offer:
    spans = _spans([*([own] if own else []), *agreed])
    steps = [Coming(row.effective_from, row) for row in agreed]
    steps += [Coming(row.effective_from, row) for row in coming if not _is_within(row.effective_from, spans)]
    begun = {step.at for step in steps}
    steps += [Coming(ends, None) for _, ends in spans if ends is not None and ends not in begun]
    until = until_of(own) if own else None
    return Offer(model, public, own, until, tuple(sorted(steps, key=lambda step: step.at)))


def _spans(versions: list[PriceVersion]) -> list[tuple[datetime, datetime | None]]:
    """Return from when to when each agreement holds; None: until the next one, or for good."""
    spans: list[tuple[datetime, datetime | None]] = []
    for position, row in enumerate(versions):
        follows = versions[position + 1].effective_from if position + 1 < len(versions) else None
        until = until_of(row)
        ends = until if follows is None or (until is not None and until < follows) else follows
        spans.append((row.effective_from, ends))
    return spans


def _is_within(at: datetime, spans: list[tuple[datetime, datetime | None]]) -> bool:
    return any(starts <= at and (ends is None or at < ends) for starts, ends in spans)
