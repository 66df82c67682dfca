"""Pays providers for machines that stood ready: each node's hour once, by the portal's own history of its states."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.errors import PriceInThePast, UnsoundPrice
from portal.billing.models import AvailabilityHour, AvailabilityRate, EarningMaturity, LedgerTx
from portal.billing.rules import availability as rules
from portal.billing.rules.availability import HOUR, GpuPay
from portal.billing.selectors import availability as selectors
from portal.billing.selectors import provider_tiers
from portal.billing.services import ledger, templates
from portal.catalog.selectors.shapes import gpu_kinds
from portal.core import db
from portal.core.errors import Conflict
from portal.nodes.models import Node
from portal.trust.selectors import evidence

HIGHEST_NANO: Final = 10**10  # ten units of the currency a GPU and minute: beyond it is a slip of the hand
SETTLED_AFTER: Final = timedelta(minutes=5)
PAID_WITHIN: Final = timedelta(hours=48)  # hours that a worker missed while it was away


@dataclass(frozen=True, slots=True)
class _Earned:
    """What one node earned by being ready in one hour."""

    node: Node
    minutes: int
    gpus: int
    amount_nano: int


def set_rate(
    *, gpu_kind: str, nano_per_minute: int, actor: Actor, now: datetime, effective_from: datetime
) -> AvailabilityRate:
    """Set what a ready GPU of a kind ("": of all others) is paid a minute, from a full UTC hour on; 0 ends it.

    Raises UnsoundPrice, PriceInThePast, Conflict.
    """
    if not 0 <= nano_per_minute <= HIGHEST_NANO:
        raise UnsoundPrice(f"a minute is paid between 0 and {HIGHEST_NANO} nano", param="nano_per_minute")
    if gpu_kind and gpu_kind not in {kind.name for kind in gpu_kinds()}:
        raise UnsoundPrice(f"there is no kind of GPU named {gpu_kind!r}", param="gpu_kind", fix="choose a known kind")
    if not rules.is_full_hour(effective_from):
        raise UnsoundPrice("a rate begins with a full UTC hour", param="effective_from", fix="choose a full hour")
    if effective_from < now:
        raise PriceInThePast(f"{effective_from.isoformat()} has passed", param="effective_from")
    with transaction.atomic():
        try:
            with transaction.atomic():
                rate = AvailabilityRate.objects.create(
                    gpu_kind=gpu_kind,
                    nano_per_minute=nano_per_minute,
                    effective_from=effective_from,
                    created_at=now,
                    created_by=actor.public_id,
                )
        except IntegrityError as error:
            message = f"there is a rate from {effective_from.isoformat()} already"
            raise Conflict(message, fix="choose another hour") from error
        audit.record(
            actor=actor,
            event="availability_rate.set",
            subject=gpu_kind or "any GPU",
            now=now,
            detail={"nano_per_minute": nano_per_minute, "effective_from": effective_from.isoformat()},
        )
    return rate


def pay(*, now: datetime) -> int:
    """Pay all hours that are over and not paid yet; return how many node hours were.

    Safe to run twice and at once: a node's hour is one row and one ledger key, and an hour is paid as a whole or not at
    all. It waits five minutes for the move that ended it, and is not paid after two days.
    """
    first = selectors.first_rate_at()
    if first is None:
        return 0
    last = rules.hour_of(now - SETTLED_AFTER) - HOUR
    hour = max(first, rules.hour_of(now - PAID_WITHIN))
    paid = 0
    while hour <= last:
        paid += _pay_hour(hour, now)
        hour += HOUR
    return paid


def _pay_hour(hour: datetime, now: datetime) -> int:
    rates = selectors.rates_at(at=hour)
    if not any(rates.values()):
        return 0
    with db.advisory_lock("poolhouse.billing.availability"):
        earned = _earned(selectors.unpaid_nodes(hour=hour), hour, rates, now)
        held = provider_tiers.standings({row.node.provider for row in earned}, now=now)
        _book(earned, hour, {provider: standing.hold_days for provider, standing in held.items()}, now)
    return len(earned)


def _earned(nodes: list[Node], hour: datetime, rates: dict[str, int], now: datetime) -> list[_Earned]:
    distrusted = evidence.distrusted(now=now)
    ids = [node.pk for node in nodes if node.pk not in distrusted]
    moves = selectors.moves(node_ids=ids, hour=hour)
    gpus = selectors.verified_gpus(node_ids=ids, before=hour + HOUR, rates=rates)
    rows = [_earned_by(node, rules.minutes(moves.get(node.pk, []), hour=hour), gpus.get(node.pk, [])) for node in nodes]
    return [row for row in rows if row.amount_nano]


def _earned_by(node: Node, minutes: int, gpus: list[GpuPay]) -> _Earned:
    paid = [gpu for gpu in gpus if gpu.nano_per_minute]
    return _Earned(node, minutes, len(paid), rules.pay_nano(paid, minutes=minutes))


def _book(earned: list[_Earned], hour: datetime, hold_days: dict[str, int], now: datetime) -> None:
    """Write the whole hour at once: the providers' accounts are locked in one order."""
    posted = ledger.post_all([_entry(row, hour) for row in earned], actor=SYSTEM_ACTOR, now=now)
    AvailabilityHour.objects.bulk_create(_paid(row, hour, tx) for row, tx in zip(earned, posted, strict=True))
    EarningMaturity.objects.bulk_create(
        EarningMaturity(
            tx=tx,
            provider=row.node.provider.public_id,
            amount_nano=row.amount_nano,
            matures_at=hour + HOUR + timedelta(days=hold_days[row.node.provider.public_id]),
        )
        for row, tx in zip(earned, posted, strict=True)
    )


def _entry(row: _Earned, hour: datetime) -> ledger.Entry:
    name = f"{row.node.public_id}:{hour:%Y-%m-%dT%H}"
    return ledger.Entry(
        kind="availability",
        key=f"availability:{name}",
        source_type="availability_hour",
        source_id=name,
        transfers=templates.availability(
            provider=row.node.provider.public_id, amount=row.amount_nano, currency=settings.CURRENCY
        ),
        effective_at=hour + HOUR - timedelta(microseconds=1),
        note=f"{row.minutes} minutes of {row.gpus} GPUs",
    )


def _paid(row: _Earned, hour: datetime, tx: LedgerTx) -> AvailabilityHour:
    return AvailabilityHour(
        hour=hour,
        node_id=row.node.pk,
        node=row.node.public_id,
        provider=row.node.provider.public_id,
        node_class=row.node.node_class,
        gpus=row.gpus,
        minutes=row.minutes,
        amount_nano=row.amount_nano,
        tx=tx,
    )
