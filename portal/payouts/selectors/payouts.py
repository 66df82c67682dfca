"""Payouts as pages and workers read them."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Count, Q, QuerySet, Sum

from portal.core.errors import NotFound
from portal.payouts.models import OPEN_STATES, Payout, PayoutAttempt, PayoutState, Rail
from portal.providers.models import Provider


def payout(public_id: str) -> Payout:
    """Return a payout for the operator. Raises NotFound."""
    row = Payout.objects.select_related("provider__organization").filter(public_id=public_id).first()
    if row is None:
        raise NotFound("there is no such payout", param="payout")
    return row


def payouts_of(*, provider: Provider, limit: int = 100) -> QuerySet[Payout]:
    """Return a provider's payouts, newest first."""
    return Payout.objects.filter(provider=provider).order_by("-created_at", "-pk")[:limit]


def open_payouts(*, limit: int = 500) -> QuerySet[Payout]:
    """Return every payout that is not finished, those that need a person first, then the oldest."""
    rank = Q(state__in=[PayoutState.NEEDS_REVIEW, PayoutState.UNKNOWN, PayoutState.WAITING_FUNDS, PayoutState.HELD])
    rows = Payout.objects.select_related("provider__organization").filter(state__in=OPEN_STATES)
    return rows.annotate(needs_eyes=Count("pk", filter=rank)).order_by("-needs_eyes", "created_at", "pk")[:limit]


def recent(*, limit: int = 50) -> QuerySet[Payout]:
    """Return finished payouts, newest first."""
    rows = Payout.objects.select_related("provider__organization").exclude(state__in=OPEN_STATES)
    return rows.order_by("-changed_at", "-pk")[:limit]


def totals() -> dict[str, tuple[int, int]]:
    """Return count and sum of minor units of open payouts by state."""
    rows = Payout.objects.filter(state__in=OPEN_STATES).values("state").annotate(n=Count("pk"), sum=Sum("amount_minor"))
    return {row["state"]: (row["n"], row["sum"]) for row in rows.order_by("state")}


def attempt_of(payout: Payout) -> PayoutAttempt:
    """Return the attempt in force: the newest."""
    return PayoutAttempt.objects.filter(payout=payout).latest("number")


def to_send(*, limit: int = 200) -> list[int]:
    """Return payouts that may be claimed now, oldest first."""
    ready = [PayoutState.APPROVED, PayoutState.WAITING_FUNDS]
    rows = Payout.objects.filter(state__in=ready, rail=Rail.STRIPE).order_by("created_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def manual_payouts(*, states: Iterable[str], limit: int = 200) -> QuerySet[Payout]:
    """Return payouts by bank transfer in these states, oldest first, each with the operators' words about it."""
    rows = Payout.objects.select_related("provider__organization", "manual_transfer__sent_by")
    return rows.filter(rail=Rail.MANUAL, state__in=list(states)).order_by("created_at", "pk")[:limit]


def manual_to_send(*, limit: int = 1000) -> QuerySet[Payout]:
    """Return approved payouts that an operator has yet to order at the bank, oldest first."""
    return manual_payouts(states=[PayoutState.APPROVED], limit=limit)


def manual_paid(*, limit: int = 50) -> QuerySet[Payout]:
    """Return payouts that the operator's bank has paid, newest first."""
    rows = Payout.objects.select_related("provider__organization", "manual_transfer__confirmed_by")
    return rows.filter(rail=Rail.MANUAL, state=PayoutState.TRANSFERRED).order_by("-sent_at", "-pk")[:limit]


def to_reconcile(*, sent_before: datetime, limit: int = 200) -> list[int]:
    """Return payouts of unknown outcome, and those whose sender has been silent since `sent_before`."""
    silent = Q(state=PayoutState.SENDING, changed_at__lt=sent_before)
    rows = Payout.objects.filter(Q(state=PayoutState.UNKNOWN) | silent).order_by("created_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def by_transfer(transfer: str) -> Payout | None:
    """Return the payout that this Stripe transfer paid."""
    return Payout.objects.filter(stripe_transfer=transfer).first() if transfer else None
