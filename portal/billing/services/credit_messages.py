"""E-mails about credit to the people who may act on it: owners and admins, one a fact and person."""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.urls import reverse

from portal.accounts.models import Membership, Organization, Role, User
from portal.billing.models import (
    AutoTopUp,
    CreditAlert,
    PostpaidBill,
    PromoGrant,
    SpendingStop,
    StopKind,
    TopUp,
)
from portal.billing.rules import amounts, runway
from portal.billing.selectors import spend_pace
from portal.billing.services.topup_guard import PurchaseRefused
from portal.notifications import services as notifications


def auto_topup_off(*, organization: Organization, topup: TopUp, reason: str, now: datetime) -> None:
    """Say that the card is not charged any more, and why."""
    _tell(
        organization, "auto_topup_off", topup.public_id, {"reason": reason, "amount": _minor(topup.amount_minor)}, now
    )


def auto_topup_confirm(*, organization: Organization, topup: TopUp, url: str, now: datetime) -> None:
    """Ask the owners to confirm a payment on a hosted page."""
    _tell(organization, "auto_topup_confirm", topup.public_id, {"amount": _minor(topup.amount_minor), "url": url}, now)


def auto_topup_capped(*, organization: Organization, cap_minor: int, now: datetime) -> None:
    """Say, once a month, that the month's cap keeps the card from being charged."""
    _tell(organization, "auto_topup_capped", f"{now:%Y-%m}", {"cap": _minor(cap_minor)}, now)


def auto_topup_refused(*, plan: AutoTopUp, refusal: PurchaseRefused, now: datetime) -> None:
    """Say that the pool's guard against stolen cards keeps the card from being charged, why and until when.

    Once for each reason and time; where nobody can name a time, once a month.
    """
    until = f"{refusal.again_at:%Y-%m-%d %H:%M}" if refusal.again_at else ""
    context: dict[str, object] = {"amount": _minor(plan.amount_minor), "reason": refusal.sentences, "until": until}
    _tell(plan.organization, "auto_topup_refused", f"{refusal.code}:{until or f'{now:%Y-%m}'}", context, now)


def credit_low(*, alert: CreditAlert, balance_nano: int, now: datetime) -> None:
    """Say that the credit fell below the alert's threshold, and how long it lasts."""
    organization = alert.organization
    spent = spend_pace.spent_lately(organization_id=organization.pk, now=now)
    lasts = runway.runway(balance_nano=balance_nano, spent_nano=spent)
    context: dict[str, object] = {
        "balance": _nano(balance_nano),
        "threshold": _nano(alert.threshold_nano),
        "runway": runway.in_words(lasts),
        "spent": _nano(spent),
    }
    _tell(organization, "credit_low", str(alert.crossing), context, now)


def spending_stopped(*, stop: SpendingStop, is_automatic: bool, now: datetime) -> None:
    """Say that nothing can be spent for now; where no operator decided it, the operators are told what to look at."""
    organization = stop.organization
    context: dict[str, object] = {"is_dispute": stop.kind == StopKind.DISPUTE, "page": _page("customer:refunds")}
    _tell(organization, "spending_stopped", str(stop.pk), context, now)
    if not is_automatic:
        return
    for operator in User.objects.filter(is_operator=True, is_active=True).order_by("pk"):
        notifications.send(
            key=f"customer_stopped:{stop.pk}:{operator.public_id}",
            to=operator.email,
            template="customer_stopped",
            context={
                "organization": organization.name,
                "why": stop.get_kind_display().lower(),
                "note": stop.note,
                "page": _page("operators:customer-risk", organization.public_id),
            },
            now=now,
        )


def promo_expires(*, grant: PromoGrant, now: datetime) -> None:
    """Say that promotional credit will expire soon."""
    ends = f"{grant.expires_at:%Y-%m-%d %H:%M}"
    _tell(grant.organization, "promo_expires", grant.public_id, {"rest": _nano(grant.rest_nano), "ends": ends}, now)


def bill_made(*, bill: PostpaidBill, now: datetime) -> None:
    """Send a bill: what is due, until when, where to pay."""
    _tell(bill.organization, "bill_made", bill.public_id, _bill(bill, bill.due_nano), now)


def bill_overdue(*, bill: PostpaidBill, open_nano: int, now: datetime) -> None:
    """Say that a bill is overdue and spending has stopped."""
    _tell(bill.organization, "bill_overdue", bill.public_id, _bill(bill, open_nano), now)


def _bill(bill: PostpaidBill, open_nano: int) -> dict[str, object]:
    return {
        "bill": bill.public_id,
        "month": f"{bill.starts_at:%Y-%m}",
        "open": _nano(open_nano),
        "due": f"{bill.due_at:%Y-%m-%d}",
        "url": _page("customer:bill", bill.public_id),
    }


def _tell(organization: Organization, name: str, fact: str, context: dict[str, object], now: datetime) -> None:
    for membership in _readers(organization):
        notifications.send(
            key=f"{name}:{organization.public_id}:{fact}:{membership.user.public_id}"[:120],
            to=membership.user.email,
            template=name,
            context={"organization": organization.name, "page": _page("customer:credit"), **context},
            now=now,
        )


def _page(route: str, *given: str) -> str:
    return f"{settings.PUBLIC_URL}{reverse(route, args=given)}"


def _readers(organization: Organization) -> Iterable[Membership]:
    rows = Membership.objects.filter(organization=organization, role__in=[Role.OWNER, Role.ADMIN])
    return rows.select_related("user").order_by("pk")


def _nano(nano: int) -> str:
    return amounts.written(nano, settings.CURRENCY)


def _minor(minor: int) -> str:
    return amounts.written_minor(minor, settings.CURRENCY)
