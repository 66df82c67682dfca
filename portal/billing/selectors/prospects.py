"""Offered models with price and share as a visitor's prospects are made from: cached, since anybody may ask."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.core.cache import caches
from poolhouse_common import planner

from portal.billing.models import PriceVersion
from portal.billing.rules import prospects as sums
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
_MILLI = 1000


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
    """One model on a visitor's machine. `plan` is None where nobody knows the model's shape.

    `estimates` has one for each kind of the machine's GPUs on which it fits, the best paying first.
    """

    offer: Offer
    plan: planner.Plan | None
    estimates: Sequence[Estimate] = ()
    suggestions: Sequence[planner.Suggestion] = ()

    @property
    def estimate(self) -> Estimate | None:
        """The best paying one."""
        return next(iter(self.estimates), None)


@dataclass(frozen=True, slots=True)
class Together:
    """Models run side by side: what they earn in a month, and what the whole machine draws."""

    rows: tuple[tuple[Offer, Estimate], ...]
    earned_nano: int
    milliwatts: int
    electricity_nano: int

    @property
    def net_nano(self) -> int:
        """What is left of a month."""
        return self.earned_nano - self.electricity_nano


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


def together(
    rows: Iterable[Outlook], *, gpus: Sequence[planner.Gpu], kinds: Sequence[planner.GpuKind], given: Assumptions
) -> Together:
    """Return the models to run side by side on the GPUs, with what the other GPUs and the rest of the machine draw."""
    paying = [(row.offer, estimate) for row in rows for estimate in row.estimates]
    there = Counter(gpu.name for gpu in gpus)
    chosen = [paying[at] for at in sums.fill([_option(*one) for one in paying], gpus=there)]
    free = there - Counter(gpu.name for _, one in chosen for gpu in one.plan.gpus)
    idle = [(planner.find_kind(name, kinds), count) for name, count in free.items()]
    watts = sum(kind.watts * count for kind, count in idle if kind)
    drawn = sum(estimate.prospect.milliwatts for _, estimate in chosen)
    drawn += sums.gpu_milliwatts(watts=watts, utilization_percent=0) + given.other_watts * _MILLI
    earned = sum(estimate.prospect.earned_nano for _, estimate in chosen)
    hourly = sums.electricity_nano(milliwatts=drawn, kwh_nano=given.kwh_nano)
    return Together(tuple(chosen), earned * sums.HOURS_A_MONTH, drawn, hourly * sums.HOURS_A_MONTH)


def _option(offer: Offer, estimate: Estimate) -> sums.Option:
    used = estimate.plan.gpus
    return sums.Option(offer.public_id, used[-1].name, len(used), estimate.prospect.net_nano)


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
    if not answer.fits or answer.shape.is_embedding:
        return Outlook(offer, answer, suggestions=suggestions)
    alike = [tuple(gpu for gpu in gpus if gpu == kind) for kind in dict.fromkeys(gpus)]
    plans = [_planned(offer.shape, group, offer.wish)[0] for group in alike]
    tried = [_estimate(offer, one, kinds, given, speeds) for one in plans if one.fits]
    found = sorted(filter(None, tried), key=lambda one: -one.prospect.net_nano)
    return Outlook(offer, found[0].plan if found else answer, found)


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
