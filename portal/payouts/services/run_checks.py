"""Checks a payout run before anyone approves it: the ledger, the balance at Stripe, the doctor's red flags."""

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings

from portal.billing.services import reconcile as billing_reconcile
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError
from portal.payouts.models import PayoutRun, Rail
from portal.payouts.rules import findings as rules
from portal.payouts.rules.findings import Finding
from portal.payouts.selectors import reconcile, runs
from portal.payouts.services import doctor

_IN_COVER = {"balance"}


def check(*, run_id: str, now: datetime) -> PayoutRun:
    """Check the run as it is now and keep what was found, with the hash of what was checked. Raises NotFound."""
    run = runs.run(run_id)
    before = runs.current_hash(run=run)
    found = [_ledger(now), _cover(run), *_red_flags(now)]
    PayoutRun.objects.filter(pk=run.pk).update(findings=rules.to_json(found), checked_hash=before, checked_at=now)
    run.refresh_from_db()
    return run


def check_new(*, now: datetime) -> list[str]:
    """Check every run that nobody has checked yet; return their ids."""
    waiting = runs.unchecked()
    for run_id in waiting:
        check(run_id=run_id, now=now)
    return waiting


def _ledger(now: datetime) -> Finding:
    found = [*billing_reconcile.differences(now=now), *reconcile.differences(now=now)]
    example = f"{found[0].code} of {found[0].subject}" if found else ""
    return rules.ledger_finding(differences=len(found), example=example)


def _cover(run: PayoutRun) -> Finding:
    rows = runs.awaiting(run=run).filter(rail=Rail.STRIPE)
    needed = sum(rows.values_list("amount_minor", flat=True))
    try:
        balances = stripe.payments().balances()
    except PaymentError:
        return rules.cover_finding(needed_minor=needed, available_minor=None)
    available = sum(one.available_minor for one in balances if one.currency == settings.CURRENCY)
    return rules.cover_finding(needed_minor=needed, available_minor=available)


def _red_flags(now: datetime) -> Iterator[Finding]:
    """What the doctor calls a failure; the balance is judged by what the run needs."""
    for one in doctor.examine(now=now):
        if one.status == "fail" and one.id not in _IN_COVER:
            yield Finding(one.id, one.status, one.detail, one.fix)
