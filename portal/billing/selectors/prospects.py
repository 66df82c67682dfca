"""Offered models with price and share as a visitor's prospects are made from: cached, since anybody may ask."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.core.cache import caches
from poolhouse_common import planner

from portal.billing.models import PriceVersion
from portal.billing.rules.prospects import Assumptions, Prospect, prospect
from portal.billing.rules.rating import Terms
from portal.billing.selectors import prices
from portal.catalog.models import CatalogModel
from portal.catalog.rules.shapes import ModelConfigInvalid
from portal.catalog.selectors import models, shapes

MAX_OFFERS = 100
_SECONDS = 60
_CACHE = "process"
_KEY = "prospects.offers"


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that customers may ask for: shape (None: no config.json), public price and a new provider's share."""

    public_id: str
    name: str
    shape: planner.ModelShape | None
    wish: planner.Wish
    price: Terms
    share_bps: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan would bring: `sequences` requests run at once; `is_measured` where such GPUs were measured."""

    plan: planner.Plan
    sequences: int
    speed: planner.Speed
    is_measured: bool
    prospect: Prospect


@dataclass(frozen=True, slots=True)
class Outlook:
    """One model on a visitor's machine. `plan` is None where nobody knows the model's shape."""

    offer: Offer
    plan: planner.Plan | None
    estimate: Estimate | None = None
    suggestions: Sequence[planner.Suggestion] = ()


Speeds = Mapping[tuple[str, int, str], planner.Speed]


def offers(*, now: datetime) -> Sequence[Offer]:
    """Return the offered models that have a price, by id; at most a minute old."""
    found: Sequence[Offer] | None = caches[_CACHE].get(_KEY)
    if found is None:
        found = _offers(now)
        caches[_CACHE].set(_KEY, found, _SECONDS)
    return found


def outlooks(
    *, offered: Iterable[Offer], gpus: Sequence[planner.Gpu], kinds: Sequence[planner.GpuKind], given: Assumptions,
    speeds: Speeds,
) -> list[Outlook]:  # fmt: skip
    """Return each model on these GPUs, the best paying first, then what fits without figures, then what does not."""
    found = [_outlook(offer, gpus, kinds, given, speeds) for offer in offered]
    return sorted(found, key=_rank)


def _offers(now: datetime) -> list[Offer]:
    priced = prices.prices_at(at=now)
    share = prices.share_at(provider_id=None, at=now)
    rows = [row for row in models.offered_models()[:MAX_OFFERS] if row.pk in priced]
    return [
        Offer(
            public_id=row.public_id,
            name=row.name,
            shape=_shape(row),
            wish=shapes.wish_of(row, concurrency=1),
            price=_terms(priced[row.pk]),
            share_bps=share,
        )
        for row in rows
    ]


def _shape(row: CatalogModel) -> planner.ModelShape | None:
    """A config.json that an older planner accepted and this one refuses leaves the model without a plan."""
    try:
        return shapes.shape_of(row)
    except ModelConfigInvalid:
        return None


def _terms(price: PriceVersion) -> Terms:
    return Terms(
        prompt_nano_per_mtok=price.prompt_nano_per_mtok,
        cached_nano_per_mtok=price.cached_nano_per_mtok,
        completion_nano_per_mtok=price.completion_nano_per_mtok,
        request_nano=price.request_nano,
    )


def _outlook(
    offer: Offer,
    gpus: Sequence[planner.Gpu],
    kinds: Sequence[planner.GpuKind],
    given: Assumptions,
    speeds: Speeds,
) -> Outlook:
    if offer.shape is None:
        return Outlook(offer, None)
    answer, suggestions = _planned(offer.shape, tuple(gpus), offer.wish)
    if not answer.fits:
        return Outlook(offer, answer, suggestions=suggestions)
    is_priced = not answer.shape.is_embedding
    return Outlook(offer, answer, _estimate(offer, answer, kinds, given, speeds) if is_priced else None)


@lru_cache(maxsize=4096)
def _planned(
    shape: planner.ModelShape, gpus: tuple[planner.Gpu, ...], wish: planner.Wish
) -> tuple[planner.Plan, tuple[planner.Suggestion, ...]]:
    """A plan is a pure sum, and visitors with other assumptions ask for the same one."""
    answer = planner.plan(shape=shape, gpus=gpus, wish=wish)
    return answer, planner.suggest(answer, gpus=gpus, wish=wish)


def _estimate(
    offer: Offer, answer: planner.Plan, kinds: Sequence[planner.GpuKind], given: Assumptions, speeds: Speeds
) -> Estimate | None:
    """The sum for a model that fits, None where the requests are too long for it or nobody knows the GPU's figures."""
    kind = planner.find_kind(answer.gpus[-1].name, kinds)
    length = given.prompt_tokens + given.completion_tokens
    sequences = min(given.concurrency, answer.cache_tokens // length)
    if kind is None or not sequences or length > answer.load.context:
        return None
    measured = speeds.get((kind.name, answer.tensor_parallel, offer.public_id))
    speed = measured or planner.speed_of(answer, kind=kind, sequences=sequences, context=length)
    expected = prospect(
        requests_a_second=speed.requests_a_second(prompt=given.prompt_tokens, completion=given.completion_tokens),
        price=offer.price,
        share_bps=offer.share_bps,
        gpu_watts=kind.watts * answer.tensor_parallel,
        given=given,
    )
    return Estimate(answer, sequences, speed, measured is not None, expected)


def _rank(row: Outlook) -> tuple[int, int, str]:
    if row.estimate is not None:
        return 0, -row.estimate.prospect.net_nano, row.offer.public_id
    return (1 if row.plan is None or row.plan.fits else 2), 0, row.offer.public_id
