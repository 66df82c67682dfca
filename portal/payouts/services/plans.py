"""When a provider wants to be paid; and how one leaves: all nodes go, the rest is paid out, the dust is written off."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks as billing_locks
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import ledger, templates
from portal.core.errors import InvalidValue
from portal.nodes.models import Node, NodeState
from portal.nodes.services import lifecycle
from portal.payouts.errors import NotLeaving
from portal.payouts.models import OPEN_STATES, Payout, PayoutPlan, Schedule
from portal.payouts.rules import amounts
from portal.providers import locks as provider_locks
from portal.providers.models import Provider

_SETTLED = (Kind.PROVIDER_PENDING, Kind.PROVIDER_RESERVE, Kind.PAYOUT_CLEARING, Kind.PROVIDER_HELD)


def choose(
    *, provider_id: str, schedule: Schedule, threshold_minor: int | None, actor: Actor, now: datetime
) -> PayoutPlan:
    """Set when the provider is paid; the threshold counts with that schedule alone. Raises InvalidValue."""
    wanted = threshold_minor if schedule == Schedule.THRESHOLD else None
    if schedule == Schedule.THRESHOLD and (wanted is None or wanted < settings.PAYOUT_MINIMUM_MINOR):
        raise InvalidValue(
            f"the amount must be at least the smallest payout, {settings.PAYOUT_MINIMUM_MINOR} minor units",
            param="threshold",
        )
    with transaction.atomic():
        provider = provider_locks.provider(provider_id)
        plan, _ = PayoutPlan.objects.update_or_create(
            provider=provider, defaults={"schedule": schedule, "threshold_minor": wanted, "changed_at": now}
        )
        detail: dict[str, object] = {"schedule": schedule.value or "pool", "threshold_minor": wanted}
        _record(provider, "payout_plan.chosen", actor, now, detail)
    return plan


def leave(*, provider_id: str, actor: Actor, now: datetime) -> PayoutPlan:
    """Retire every node of the provider and note that it has left; what it earned is paid out. Raises NotLeaving."""
    with transaction.atomic():
        provider = provider_locks.provider(provider_id)
        nodes = list(Node.objects.filter(provider=provider).exclude(state=NodeState.RETIRED).order_by("pk"))
        if any(node.state == NodeState.SUSPENDED for node in nodes):
            raise NotLeaving("a suspended node has to be cleared up with the operator first")
        for node in nodes:
            lifecycle.retire(node_id=node.public_id, actor=actor, now=now)
        plan, _ = PayoutPlan.objects.update_or_create(
            provider=provider, defaults={"left_at": now, "settled_at": None, "changed_at": now}
        )
        _record(provider, "provider.left", actor, now, {"nodes": len(nodes)})
    return plan


def settle_left(*, now: datetime, limit: int = 200) -> int:
    """End the accounts of providers who have left and have nothing but dust; return how many were ended.

    Dust is what is less than the smallest unit that can be sent; it is written off.
    """
    rows = PayoutPlan.objects.filter(left_at__isnull=False, settled_at=None).order_by("left_at", "pk")
    return sum(_settle(public_id, now) for public_id in rows.values_list("provider__public_id", flat=True)[:limit])


def _settle(provider_id: str, now: datetime) -> bool:
    with transaction.atomic():
        provider = provider_locks.provider(provider_id)
        is_back = Node.objects.filter(provider=provider).exclude(state=NodeState.RETIRED).exists()
        if is_back or Payout.objects.filter(provider=provider, state__in=OPEN_STATES).exists():
            return False
        dust = _dust(provider_id)
        if dust is None:
            return False
        if dust:
            _write_off(provider, dust, now)
        PayoutPlan.objects.filter(provider=provider).update(settled_at=now)
        _record(provider, "provider.settled", SYSTEM_ACTOR, now, {"dust_nano": dust})
    return True


def _dust(provider_id: str) -> int | None:
    """Return what is left of a provider's money where it is too little to be sent; None where more is to come."""
    kinds = [*_SETTLED, Kind.PROVIDER_AVAILABLE]
    rows = ledger.accounts([(str(kind), provider_id) for kind in kinds], currency=settings.CURRENCY)
    locked = billing_locks.accounts(row.pk for row in rows.values())
    left = {row.kind: balances.balance_of(row) for row in locked.values()}
    available = left.pop(Kind.PROVIDER_AVAILABLE)
    is_dust = amounts.payable_minor(available, settings.CURRENCY) == 0
    return available if is_dust and not any(left.values()) else None


def _write_off(provider: Provider, dust: int, now: datetime) -> None:
    plan = PayoutPlan.objects.get(provider=provider)
    ledger.post(
        kind="dust_written_off",
        key=f"dust:{provider.public_id}:{plan.left_at:%Y%m%dT%H%M%S}",
        source_type="provider",
        source_id=provider.public_id,
        transfers=templates.dust_written_off(provider=provider.public_id, amount=dust, currency=settings.CURRENCY),
        actor=SYSTEM_ACTOR,
        now=now,
    )


def _record(provider: Provider, event: str, actor: Actor, now: datetime, detail: dict[str, object]) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=provider.public_id,
        now=now,
        organization=provider.organization.public_id,
        detail=detail,
    )
