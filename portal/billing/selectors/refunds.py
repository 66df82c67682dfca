"""Refunds: what can be given back, what waits, and what pages show."""

from datetime import datetime

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Sum

from portal.accounts.models import Organization
from portal.billing.models import Dispute, LedgerAccount, PaidCharge, Refund, RefundAttempt, RefundState, TopUp
from portal.billing.models.topups import TopUpState
from portal.billing.rules import accounts as chart
from portal.billing.rules import disputes
from portal.billing.rules import refunds as rules
from portal.billing.rules.accounts import Kind
from portal.billing.rules.refunds import Purchase
from portal.billing.selectors import balances
from portal.core.errors import NotFound


def purchase_of(*, topup: TopUp) -> Purchase:
    """Return what was paid for a purchase and what of it was given back or is on its way."""
    sums = topup.refunds.exclude(state__in=rules.CAME_TO_NOTHING).aggregate(
        amount=Sum("amount_minor", default=0), tax=Sum("tax_minor", default=0)
    )
    return Purchase(
        paid=topup.amount_minor + topup.tax_minor,
        tax=topup.tax_minor,
        refunded=int(sums["amount"]),
        refunded_tax=int(sums["tax"]),
    )


def refundable(*, topup: TopUp) -> int:
    """Return what of a purchase can be given back now, in minor units; nothing of a disputed one."""
    if topup.state != TopUpState.PAID or not topup.charge or is_contested(topup=topup):
        return 0
    free = free_credit(organization=topup.organization)
    return rules.refundable(purchase_of(topup=topup), free_nano=free, currency=topup.currency)


def is_contested(*, topup: TopUp) -> bool:
    """Tell whether the money of a purchase is, or was for good, in the hands of a bank: Stripe refuses its refund."""
    return topup.disputes.exclude(status__in=disputes.WON).exists()


def refundable_topups(*, organization: Organization, limit: int = 50) -> list[tuple[TopUp, int]]:
    """Return the organization's purchases of which something can be given back, with how much; newest first."""
    live = ~Q(refunds__state__in=rules.CAME_TO_NOTHING)
    rows = TopUp.objects.filter(organization=organization, state=TopUpState.PAID).exclude(charge="")
    rows = rows.annotate(
        given=Sum("refunds__amount_minor", filter=live, default=0),
        given_tax=Sum("refunds__tax_minor", filter=live, default=0),
        contested=Exists(Dispute.objects.filter(topup=OuterRef("pk")).exclude(status__in=disputes.WON)),
    ).filter(contested=False)
    free = free_credit(organization=organization)
    found = [
        (topup, rules.refundable(_purchase(topup), free_nano=free, currency=topup.currency))
        for topup in rows.order_by("-paid_at", "-pk")[:limit]
    ]
    return [(topup, minor) for topup, minor in found if minor > 0]


def free_credit(*, organization: Organization) -> int:
    """Return the bought credit that is neither spent nor held (nano)."""
    account = LedgerAccount.objects.filter(code=chart.code(Kind.CUSTOMER_CREDIT, organization.public_id)).first()
    return balances.free_of(account) if account else 0


def _purchase(topup: TopUp) -> Purchase:
    given: dict[str, int] = {name: int(getattr(topup, name)) for name in ("given", "given_tax")}
    return Purchase(
        paid=topup.amount_minor + topup.tax_minor,
        tax=topup.tax_minor,
        refunded=given["given"],
        refunded_tax=given["given_tax"],
    )


def refund(*, public_id: str) -> Refund:
    """Return a refund. Raises NotFound."""
    row = Refund.objects.filter(public_id=public_id).select_related("organization", "topup").first()
    if row is None:
        raise NotFound(f"no refund {public_id}")
    return row


def refund_of(*, organization: Organization, public_id: str) -> Refund:
    """Return the organization's refund. Raises NotFound."""
    row = Refund.objects.filter(organization=organization, public_id=public_id).select_related("topup").first()
    if row is None:
        raise NotFound("there is no such refund")
    return row


def refunds(*, organization: Organization | None = None, limit: int = 50) -> QuerySet[Refund]:
    """Return refunds, newest first, of one organization or of all."""
    rows = Refund.objects.select_related("organization", "topup")
    if organization is not None:
        rows = rows.filter(organization=organization)
    return rows.order_by("-created_at", "-pk")[:limit]


def waiting(*, limit: int = 100) -> QuerySet[Refund]:
    """Return the refunds that need an operator, oldest first."""
    rows = Refund.objects.filter(state__in=[RefundState.REQUESTED, RefundState.NEEDS_REVIEW])
    return rows.select_related("organization", "topup").order_by("created_at", "pk")[:limit]


def attempt_of(*, refund: Refund) -> RefundAttempt:
    """Return the attempt in force."""
    return refund.attempts.order_by("-number")[0]


def to_send(*, now: datetime, limit: int = 100) -> list[int]:
    """Return approved refunds whose turn has come: their task may have been lost."""
    rows = Refund.objects.filter(state=RefundState.RESERVED)
    rows = rows.filter(Q(next_try_at=None) | Q(next_try_at__lte=now)).order_by("changed_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def in_doubt(*, silent_since: datetime, limit: int = 100) -> list[int]:
    """Return refunds of unknown outcome, and those whose sender fell silent."""
    silent = Q(state=RefundState.SENDING, changed_at__lt=silent_since)
    rows = Refund.objects.filter(Q(state=RefundState.UNKNOWN) | silent).order_by("changed_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def pending(*, changed_before: datetime, limit: int = 100) -> list[str]:
    """Return the charges of refunds that Stripe has not finished: their event may have been lost."""
    rows = Refund.objects.filter(state=RefundState.PENDING, changed_at__lt=changed_before).order_by("changed_at", "pk")
    return list(dict.fromkeys(rows.values_list("charge", flat=True)[:limit]))


def topup_of_charge(*, charge: str, payment: str = "") -> TopUp | None:
    """Return the paid purchase that this charge or payment paid."""
    rows = TopUp.objects.filter(state=TopUpState.PAID).select_related("organization")
    found = rows.filter(charge=charge).first() if charge else None
    return found or (rows.filter(payment_intent=payment).first() if payment else None)


def charge_of(*, topup: TopUp) -> PaidCharge | None:
    """Return which card paid a purchase, where Stripe told."""
    return PaidCharge.objects.filter(topup=topup).first()


def indebted(*, limit: int = 200) -> list[str]:
    """Return organizations (public ids) that owe for a refund or dispute while credit of theirs is free."""
    owing = LedgerAccount.objects.filter(kind=Kind.CUSTOMER_RECEIVABLE, debits__gt=F("credits"))
    owners = set(owing.values_list("owner", flat=True))
    by_refund = Refund.objects.filter(debt_nano__gt=0, organization__public_id__in=owners)
    by_dispute = Dispute.objects.filter(movements__debt_nano__gt=0, organization__public_id__in=owners)
    names = {*by_refund.values_list("organization__public_id", flat=True)}
    names |= {*by_dispute.values_list("organization__public_id", flat=True)}
    free = LedgerAccount.objects.filter(
        kind=Kind.CUSTOMER_CREDIT, owner__in=names, credits__gt=F("debits") + F("held")
    ).order_by("pk")
    return list(free.values_list("owner", flat=True)[:limit])
