"""Alerts of low credit: one e-mail a crossing."""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from portal.accounts import locks as account_locks
from portal.accounts.models import Organization
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.models import CreditAlert
from portal.billing.rules import runway
from portal.billing.selectors import balances, low_credit
from portal.billing.services import credit_messages
from portal.core import money
from portal.core.errors import InvalidValue

_NEVER_ASKED = 1  # nano; the row says that somebody chose, and is off


def set_alert(*, organization: Organization, threshold_nano: int | None, actor: Actor, now: datetime) -> CreditAlert:
    """Choose below which credit the owners get an e-mail; None: never, not after a first payment either.

    Raises InvalidValue, OrganizationSuspended.
    """
    if threshold_nano is not None and threshold_nano <= 0:
        raise InvalidValue("a threshold is more than nothing", param="threshold")
    with transaction.atomic():
        require_active(account_locks.organization(organization_id=organization.pk))
        alert = locks.credit_alert(organization.pk)
        if alert is None:
            alert = CreditAlert(organization=organization, threshold_nano=_NEVER_ASKED)
        alert.is_on, alert.is_low = threshold_nano is not None, False
        alert.threshold_nano = threshold_nano or alert.threshold_nano
        alert.save()
        _record(organization, threshold_nano, actor, now)
    return alert


def _record(organization: Organization, threshold_nano: int | None, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event="credit_alert.set",
        subject=organization.public_id,
        now=now,
        organization=organization.public_id,
        detail={"threshold_nano": None if threshold_nano is None else str(threshold_nano)},
    )


def begin(*, organization: Organization, paid_minor: int, currency: str, now: datetime) -> None:
    """Watch the credit of an organization that pays for the first time; one that ever chose is left alone.

    Called before any ledger account is locked, since the organization's row comes first.
    """
    nano = money.nano_from_minor(runway.first_threshold(paid_minor), currency)
    with transaction.atomic():
        _, is_new = CreditAlert.objects.get_or_create(organization=organization, defaults={"threshold_nano": nano})
        if is_new:
            _record(organization, nano, SYSTEM_ACTOR, now)


def judge(*, organization_id: int, now: datetime) -> bool:
    """Bring an organization's alert to what its credit is now; tell whether an e-mail was written."""
    with transaction.atomic():
        alert = locks.credit_alert(organization_id)
        if alert is None or not alert.is_on:
            return False
        balance = balances.customer_balance(organization=alert.organization.public_id).total_nano
        is_low = runway.is_low(balance_nano=balance, threshold_nano=alert.threshold_nano, was_low=alert.is_low)
        if is_low == alert.is_low:
            return False
        alert.is_low = is_low
        if is_low:
            alert.crossing, alert.crossed_at = alert.crossing + 1, now
            credit_messages.credit_low(alert=alert, balance_nano=balance, now=now)
        alert.save(update_fields=["is_low", "crossing", "crossed_at"])
    return is_low


def judge_all(*, now: datetime, only: Collection[int] | None = None) -> int:
    """Judge every alert that may have to change, or those of `only`; return how many e-mails were written."""
    found = low_credit.to_judge(now=now, only=only)
    return sum(judge(organization_id=standing.organization_id, now=now) for standing in found)
