"""Whose credit is low: one query over those who asked to be told, or to have a card charged."""

# ruff: noqa: S608  the queries are composed of constants of this module alone

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection

from portal.billing.rules.accounts import Kind
from portal.core import money

_KINDS = [str(Kind.CUSTOMER_CREDIT), str(Kind.PROMO_CREDIT)]
_STANDING = """
    SELECT watched.organization_id, watched.threshold, coalesce(credit.balance, 0), coalesce(credit.held, 0)
    FROM {watched} watched JOIN accounts_organization owner ON owner.id = watched.organization_id
    LEFT JOIN LATERAL (
        SELECT sum(account.credits - account.debits)::bigint AS balance, sum(account.held)::bigint AS held
        FROM billing_ledgeraccount account WHERE account.owner = owner.public_id AND account.kind = ANY(%(kinds)s)
    ) credit ON true
    WHERE owner.state = 'active' AND (%(only)s::bigint[] IS NULL OR watched.organization_id = ANY(%(only)s::bigint[]))
"""
# An organization rests between two tries, and while one purchase of its is under way.
_AUTO = (
    _STANDING.format(
        watched="(SELECT organization_id, threshold_minor * %(unit)s AS threshold, retry_at FROM billing_autotopup"
        " WHERE is_on)"
    )
    + """
    AND owner.stopped_for = '' AND (watched.retry_at IS NULL OR watched.retry_at <= %(now)s)
    AND coalesce(credit.balance, 0) - coalesce(credit.held, 0) < watched.threshold
    AND NOT EXISTS (SELECT 1 FROM billing_topup topup WHERE topup.organization_id = watched.organization_id
        AND topup.origin = 'auto' AND topup.state IN ('created', 'open', 'processing', 'unknown', 'needs_action'))
    ORDER BY watched.organization_id
"""
)
_ALERTS = (
    _STANDING.format(
        watched="(SELECT organization_id, threshold_nano AS threshold, is_low FROM billing_creditalert WHERE is_on)"
    )
    + """
    AND (watched.is_low OR coalesce(credit.balance, 0) < watched.threshold) ORDER BY watched.organization_id
"""
)


@dataclass(frozen=True, slots=True)
class Standing:
    """An organization that watches its credit, with what it has and how much of that is held (nano)."""

    organization_id: int
    threshold_nano: int
    balance_nano: int
    held_nano: int


def wanting_auto_topup(*, now: datetime, only: Collection[int] | None = None) -> list[int]:
    """Return the organizations whose free credit is below the threshold at which their card is charged."""
    return [standing.organization_id for standing in _standings(_AUTO, now, only)]


def to_judge(*, now: datetime, only: Collection[int] | None = None) -> list[Standing]:
    """Return the organizations whose alert may have to change: below its threshold, or told of it before."""
    return _standings(_ALERTS, now, only)


def _standings(query: str, now: datetime, only: Collection[int] | None) -> list[Standing]:
    given = {
        "kinds": _KINDS,
        "only": None if only is None else list(only),
        "unit": money.nano_per_minor(settings.CURRENCY),
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        return [Standing(int(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in cursor.fetchall()]
