"""What our own records say of a disputed purchase: account, addresses, payments, and usage day by day."""

from dataclasses import dataclass
from datetime import UTC, date, datetime

from django.db.models import Count, Sum

from portal.accounts.models import KeySighting, Membership, Organization
from portal.audit.models import AuditEvent
from portal.billing.models import PaidCharge, Refund, TopUp, TopUpAttempt
from portal.billing.models.topups import TopUpState
from portal.billing.rules import refunds as refund_rules
from portal.metering.models import UsageHour, UsageRecord

IDS_A_DAY = 3
MOST_DAYS = 60
MOST_EVENTS = 60
MOST_PLACES = 40


@dataclass(frozen=True, slots=True)
class UsedDay:
    """One UTC day of usage: how many requests, tokens and money (nano), and some of the requests' ids."""

    day: date
    requests: int
    tokens: int
    charge_nano: int
    ids: tuple[str, ...]


def members(*, organization: Organization) -> list[Membership]:
    """Return who belongs to the organization, the first member first."""
    rows = Membership.objects.filter(organization=organization).select_related("user")
    return list(rows.order_by("created_at", "pk")[:10])


def visits(*, organization: Organization) -> list[AuditEvent]:
    """Return what was done for the organization from which address, oldest first."""
    rows = AuditEvent.objects.filter(organization=organization.public_id).exclude(address=None)
    return list(rows.order_by("at", "pk")[:MOST_EVENTS])


def key_places(*, organization: Organization) -> list[KeySighting]:
    """Return the networks that the organization's keys were used from."""
    rows = KeySighting.objects.filter(key__organization=organization).select_related("key")
    return list(rows.order_by("first_seen_at", "pk")[:MOST_PLACES])


def purchase_address(*, topup: TopUp) -> str:
    """Return the address that the purchase was begun from, empty where it is not known."""
    event = AuditEvent.objects.filter(subject=topup.public_id, event="topup.created").exclude(address=None).first()
    return str(event.address) if event else ""


def accepted_terms(*, topup: TopUp) -> str:
    """Return the terms that the buyer was shown and accepted with the purchase, empty where there were none."""
    rows = TopUpAttempt.objects.filter(organization=topup.organization, at__lte=topup.created_at)
    return rows.order_by("-at", "-pk").values_list("terms", flat=True).first() or ""


def purchases(*, organization: Organization) -> list[tuple[TopUp, PaidCharge | None]]:
    """Return the organization's paid purchases with their cards, oldest first."""
    rows = TopUp.objects.filter(organization=organization, state=TopUpState.PAID).select_related("paid_charge")
    return [(topup, getattr(topup, "paid_charge", None)) for topup in rows.order_by("paid_at", "pk")[:100]]


def refunds(*, topup: TopUp) -> list[Refund]:
    """Return what was given back of the purchase."""
    rows = topup.refunds.exclude(state__in=refund_rules.CAME_TO_NOTHING)
    return list(rows.order_by("created_at", "pk"))


def used_days(*, organization: Organization, since: datetime) -> list[UsedDay]:
    """Return the days since then on which the organization used what it bought, newest first."""
    rows = (
        UsageHour.objects.filter(organization_id=organization.pk, hour__gte=since, charge_nano__gt=0)
        .values("hour__date")
        .annotate(requests=Sum("charged"), prompt=Sum("prompt_tokens"), made=Sum("completion_tokens"))
        .annotate(charge=Sum("charge_nano"), hours=Count("pk"))
        .order_by("-hour__date")
    )
    return [
        UsedDay(
            day=row["hour__date"],
            requests=row["requests"],
            tokens=row["prompt"] + row["made"],
            charge_nano=row["charge"],
            ids=_some_ids(organization, row["hour__date"]),
        )
        for row in rows[:MOST_DAYS]
    ]


def _some_ids(organization: Organization, day: date) -> tuple[str, ...]:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    rows = UsageRecord.objects.filter(
        opened_on=day, organization_id=organization.pk, charge_nano__gt=0, closed_at__gte=start
    )
    return tuple(str(found) for found in rows.order_by("request_id").values_list("request_id", flat=True)[:IDS_A_DAY])
