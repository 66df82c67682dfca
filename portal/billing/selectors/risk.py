"""What is known of a customer's card payments: the facts that its tier is judged by, and what pages show of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Sum

from portal.accounts.models import Organization
from portal.billing.models import (
    CustomerRisk,
    Dispute,
    FraudWarning,
    PaidCharge,
    SpendingStop,
    TopUp,
    TopUpAttempt,
    WarningState,
)
from portal.billing.models.topups import UNFINISHED, TopUpState
from portal.billing.rules import disputes, risk
from portal.billing.rules.risk import Bought, Buyer, Facts

CARDS_COUNT_FOR = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class CardUse:
    """One card of a customer: how often it paid, and what its number may be shown as."""

    digest: str
    name: str
    purchases: int
    last_paid_at: datetime


def facts_of(*, organization: Organization) -> Facts:
    """Return what decides the organization's tier."""
    paid = PaidCharge.objects.filter(organization=organization).aggregate(
        first=Min("paid_at"), count=Count("pk"), plain=Count("pk", filter=Q(is_three_d_secure=False))
    )
    contested = Dispute.objects.filter(organization=organization)
    warned = FraudWarning.objects.filter(organization=organization)
    marks = [
        contested.exclude(status__in=disputes.WON).aggregate(at=Max("opened_at"))["at"],
        warned.exclude(state=WarningState.DISMISSED).aggregate(at=Max("warned_at"))["at"],
    ]
    return Facts(
        first_paid_at=paid["first"],
        purchases=paid["count"],
        are_all_authenticated=paid["count"] > 0 and paid["plain"] == 0,
        has_open_trouble=any(disputes.is_open(status) for status in contested.values_list("status", flat=True))
        or warned.filter(state=WarningState.OPEN).exists(),
        marked_at=max((at for at in marks if at is not None), default=None),
    )


def buyer_of(*, organization: Organization, now: datetime) -> Buyer:
    """Return what decides how much the organization may buy."""
    settled = TopUp.objects.filter(
        organization=organization, state=TopUpState.PAID, paid_at__lt=now - risk.KNOWN_AFTER_3DS
    ).aggregate(sum=Sum("amount_minor", default=0))["sum"]
    facts = facts_of(organization=organization)
    has_mark = facts.marked_at is not None and now - facts.marked_at < risk.MARKS_COUNT_FOR
    return Buyer(
        created_at=organization.created_at,
        settled_minor=int(settled),
        has_trouble=facts.has_open_trouble or has_mark,
    )


def bought_since(*, organization: Organization, since: datetime) -> list[Bought]:
    """Return what the organization bought or is about to; one that is being confirmed counts once."""
    rows = TopUp.objects.filter(organization=organization, created_at__gt=since)
    rows = rows.filter(state__in=[*UNFINISHED, TopUpState.PAID]).exclude(state=TopUpState.NEEDS_ACTION)
    return [Bought(at, minor) for at, minor in rows.values_list("created_at", "amount_minor")]


def paid_purchases(*, organization: Organization) -> int:
    """Return how often the organization has paid."""
    return TopUp.objects.filter(organization=organization, state=TopUpState.PAID).count()


def attempts_of(*, since: datetime, organization_id: int | None = None, address: str = "") -> list[datetime]:
    """Return when purchases were begun, by an organization or from an address (its digest)."""
    rows = TopUpAttempt.objects.filter(at__gt=since)
    rows = rows.filter(organization=organization_id) if organization_id else rows.filter(address_digest=address)
    return list(rows.order_by("at", "pk").values_list("at", flat=True))


def cards_of(*, organization: Organization, since: datetime) -> list[CardUse]:
    """Return the cards that paid since then, the newest first."""
    rows = (
        PaidCharge.objects.filter(organization=organization, paid_at__gt=since)
        .exclude(card_digest="")
        .values("card_digest", "card_brand", "card_last4")
        .annotate(purchases=Count("pk"), last=Max("paid_at"))
        .order_by("-last", "card_digest")
    )
    return [
        CardUse(row["card_digest"], f"{row['card_brand']} …{row['card_last4']}", row["purchases"], row["last"])
        for row in rows
    ]


def contested_cards(*, digests: Iterable[str], not_of: Organization) -> list[str]:
    """Return those cards that were disputed, or warned of, at another organization."""
    rows = PaidCharge.objects.filter(card_digest__in=set(digests)).exclude(organization=not_of)
    disputed = Q(topup__disputes__isnull=False) & ~Q(topup__disputes__status__in=disputes.WON)
    warned = Q(topup__fraud_warnings__isnull=False) & ~Q(topup__fraud_warnings__state=WarningState.DISMISSED)
    return sorted(set(rows.filter(disputed | warned).values_list("card_digest", flat=True)))


def tiers_of(*, organization_ids: Iterable[int]) -> dict[int, str]:
    """Return the tier in force of each organization that has paid by card."""
    rows = CustomerRisk.objects.filter(organization__in=set(organization_ids))
    return {row.organization_id: row.in_force for row in rows}


def risk_of(*, organization: Organization) -> CustomerRisk | None:
    """Return the organization's tier with its reasons; None where it never paid by card."""
    return CustomerRisk.objects.filter(organization=organization).first()


def stops_of(*, organization: Organization, limit: int = 50) -> QuerySet[SpendingStop]:
    """Return why the organization was stopped, the newest first."""
    return SpendingStop.objects.filter(organization=organization).order_by("-created_at", "-pk")[:limit]


def to_judge(*, before: datetime, limit: int = 500) -> list[int]:
    """Return the organizations that nobody has judged since then, or since they paid last."""
    newest = PaidCharge.objects.filter(organization=OuterRef("organization"), paid_at__gte=OuterRef("judged_at"))
    rows = CustomerRisk.objects.filter(Q(judged_at__lt=before) | Exists(newest)).order_by("judged_at", "pk")
    return list(rows.values_list("organization_id", flat=True)[:limit])
