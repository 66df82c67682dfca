"""Operators say yes to a whole run: to exactly the payouts, amounts and destinations that they have seen.

One payout alone is approved behind the same check.
"""

from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from portal.accounts.models import User
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.payouts import locks
from portal.payouts.errors import NotAnOperator, RunChanged, RunNotClean
from portal.payouts.models import Payout, PayoutRun, PayoutState
from portal.payouts.selectors import payouts, runs
from portal.payouts.services import approvals, run_checks


@dataclass(slots=True)
class RunApproval:
    """What one yes did: payouts that are approved now, and how many still wait for another operator."""

    approved: list[Payout] = field(default_factory=list)
    waiting: int = 0


def approve(*, run_id: str, seen_hash: str, approver: User, actor: Actor, now: datetime) -> RunApproval:
    """Approve every payout of the run that waits, if the run is the one that was seen and its check is clean.

    Raises NotFound, NotAnOperator, RunChanged, RunNotClean.
    """
    _require_operator(approver)
    done = RunApproval()
    with transaction.atomic():
        run = locks.run(runs.run(run_id).pk)
        current = runs.current_hash(run=run)
        if not current or seen_hash != current:
            raise RunChanged("the run is not what you have seen any more", fix="look at the run again, then approve it")
        _require_clean(run, now)
        for payout in runs.awaiting(run=run):
            now_is = approvals.approve(payout_public_id=payout.public_id, approver=approver, actor=actor, now=now)
            if now_is.state == PayoutState.APPROVED:
                done.approved.append(now_is)
            else:
                done.waiting += 1
        audit.record(
            actor=actor,
            event="payout_run.approved",
            subject=run.public_id,
            now=now,
            detail={"hash": current, "approved": len(done.approved), "waiting": done.waiting},
        )
    return done


def approve_one(*, payout_public_id: str, approver: User, actor: Actor, now: datetime) -> Payout:
    """Approve one payout; its run is checked again first where the last check does not speak for the run as it is.

    Raises NotFound, NotAnOperator, RunNotClean, PayoutMoveRefused, DestinationHeld.
    """
    _require_operator(approver)
    run = payouts.payout(payout_public_id).run
    if run is not None and runs.objection(run=run, now=now):
        _require_clean(run_checks.check(run_id=run.public_id, now=now), now)
    return approvals.approve(payout_public_id=payout_public_id, approver=approver, actor=actor, now=now)


def _require_operator(person: User) -> None:
    if not person.is_operator:
        raise NotAnOperator("only operators approve payouts")


def _require_clean(run: PayoutRun, now: datetime) -> None:
    objection = runs.objection(run=run, now=now)
    if objection:
        raise RunNotClean(objection, fix="check the run again and clear up what it finds")
