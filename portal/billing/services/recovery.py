"""Derives what is held on accounts and leased of budgets anew from the leases themselves."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F, Sum

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models.credit import BudgetLease, BudgetWindow, CreditLease, LeaseState
from portal.billing.selectors import held
from portal.billing.services import ledger


@dataclass(frozen=True, slots=True)
class HeldDifference:
    """One account or budget window on which more or less is held than its leases say (nano)."""

    kind: str
    row_id: int
    subject: str
    held_nano: int
    leased_nano: int


def examine() -> list[HeldDifference]:
    """Return all differences, changing nothing."""
    return [
        *[HeldDifference("account", *row) for row in held.accounts_that_differ()],
        *[HeldDifference("budget", *row) for row in held.windows_that_differ()],
    ]


def repair(*, difference: HeldDifference, actor: Actor, now: datetime) -> int:
    """Set what is held to what the leases say now, audited; return by how much it changed (nano)."""
    with transaction.atomic():
        fix = _repair_account if difference.kind == "account" else _repair_window
        change = fix(difference.row_id)
        if change:
            audit.record(
                actor=actor,
                event="credit.holds_recovered",
                subject=difference.subject,
                now=now,
                detail={"kind": difference.kind, "change_nano": str(change)},
            )
    return change


def _repair_account(account_id: int) -> int:
    account = locks.accounts([account_id])[account_id]
    leases = CreditLease.objects.filter(account_id=account_id).exclude(state=LeaseState.CLOSED)
    change = _leased(leases.aggregate(rest=Sum(F("granted") - F("used")))["rest"]) - account.held
    if change > 0:
        ledger.hold(account_id, change)
    elif change < 0:
        ledger.unhold(account_id, -change)
    return change


def _repair_window(window_id: int) -> int:
    window = locks.budget_windows([window_id])[window_id]
    leases = BudgetLease.objects.filter(window_id=window_id).exclude(state=LeaseState.CLOSED)
    change = _leased(leases.aggregate(rest=Sum(F("granted") - F("used")))["rest"]) - window.leased_nano
    BudgetWindow.objects.filter(pk=window_id).update(leased_nano=F("leased_nano") + change)
    return change


def _leased(rest: int | None) -> int:
    return rest or 0
