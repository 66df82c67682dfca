"""The check of the ledger as it is run each night: what differs is kept, and told to operators once."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.models import User
from portal.billing.models import LedgerCheck, LedgerDifference
from portal.billing.rules.differences import Difference
from portal.billing.services import reconcile as billing
from portal.core import db
from portal.integrations.stripe_errors import PaymentError
from portal.notifications import services as notifications
from portal.payouts.selectors import reconcile as payouts
from portal.payouts.selectors import stripe_books as stripe_selectors
from portal.payouts.services import stripe_books

log = logging.getLogger(__name__)

STRIPE_CODES = frozenset({"stripe_unmatched", "stripe_differs", "stripe_balance", "stripe_lines_incomplete"})
_TOLD_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found; `stripe_problem` says why Stripe's books were left out, where they were."""

    differences: tuple[Difference, ...]
    stripe_problem: str = ""


def check(*, now: datetime, with_stripe: bool = True) -> Checked:
    """Compare everything that must be equal and return what is not; nothing is told to anybody."""
    problem, balance = _ask_stripe(now) if with_stripe else ("not asked", 0)
    with db.one_snapshot():
        found = [*billing.differences(now=now), *payouts.differences(now=now)]
        if not problem:
            found += stripe_selectors.differences(balance_minor=balance, now=now)
    return Checked(tuple(found), problem)


def run(*, now: datetime, with_stripe: bool = True) -> Checked:
    """Check, keep the result, and write to the operators about what was not known before."""
    began = time.monotonic()
    checked = check(now=now, with_stripe=with_stripe)
    took_ms = int((time.monotonic() - began) * 1000)
    with db.advisory_lock("poolhouse.payouts.ledger_checks"):
        LedgerCheck.objects.create(
            checked_at=now,
            took_ms=took_ms,
            difference_count=len(checked.differences),
            stripe_problem=checked.stripe_problem[:240],
        )
        _tell(_keep(checked, now), now)
    for one in checked.differences:
        log.error("ledger.difference", extra={"code": one.code, "subject": one.subject})
    return checked


def _ask_stripe(now: datetime) -> tuple[str, int]:
    """Bring Stripe's books up to date; return why not, or what lies there."""
    if not settings.STRIPE_API_KEY:
        return "Stripe is not set up here", 0
    try:
        return "", stripe_books.sync(now=now).balance_minor
    except PaymentError as error:
        log.warning("ledger.stripe_not_compared", extra={"code": error.code})
        return f"Stripe could not be asked: {error.message}", 0


def _keep(checked: Checked, now: datetime) -> list[LedgerDifference]:
    """Write what is new, mark what is gone; return what is new."""
    known = {(row.code, row.subject): row for row in LedgerDifference.objects.filter(resolved_at=None)}
    found = {(one.code, one.subject[:240]): one for one in checked.differences}
    for key, row in known.items():
        if key in found:
            row.last_seen_at, row.expected, row.actual = now, found[key].expected, found[key].actual
        elif not (checked.stripe_problem and row.code in STRIPE_CODES):
            row.resolved_at = now
    LedgerDifference.objects.bulk_update(
        known.values(), ["last_seen_at", "expected", "actual", "resolved_at"], batch_size=1000
    )
    return LedgerDifference.objects.bulk_create(
        LedgerDifference(
            code=code,
            subject=subject,
            expected=found[code, subject].expected,
            actual=found[code, subject].actual,
            first_seen_at=now,
            last_seen_at=now,
        )
        for code, subject in found
        if (code, subject) not in known
    )


def _tell(fresh: Iterable[LedgerDifference], now: datetime) -> None:
    """Write one message to each operator about what is new; a difference is told once, however long it stays."""
    rows = list(fresh)
    if not rows:
        return
    shown = [
        {"code": row.code, "subject": row.subject, "expected": row.expected, "actual": row.actual}
        for row in rows[:_TOLD_AT_ONCE]
    ]
    with transaction.atomic():
        for operator in User.objects.filter(is_operator=True, is_active=True).order_by("pk"):
            notifications.send(
                key=f"ledger-differences:{rows[0].pk}:{operator.public_id}",
                to=operator.email,
                template="ledger_differences",
                context={"differences": shown, "count": len(rows), "more": len(rows) - len(shown)},
                now=now,
            )
