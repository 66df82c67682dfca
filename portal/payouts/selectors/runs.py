"""Runs of payouts: what was drafted together, who was skipped, and how far it has come."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, OuterRef, QuerySet, Subquery, Sum

from portal.core.errors import NotFound
from portal.payouts.models import Payout, PayoutApproval, PayoutAttempt, PayoutRun, PayoutState, RunSkip
from portal.payouts.rules import approval, findings, reasons
from portal.payouts.rules.reasons import Reason


@dataclass(frozen=True, slots=True)
class Totals:
    """What the payouts in one state come to."""

    state: str
    count: int
    amount_minor: int
    fee_minor: int
    stripe_fee_minor: int


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A provider that was skipped, with the words of the reason."""

    skip: RunSkip
    reason: Reason


def run(public_id: str) -> PayoutRun:
    """Return one run for the operator. Raises NotFound."""
    row = PayoutRun.objects.filter(public_id=public_id).first()
    if row is None:
        raise NotFound("there is no such run", param="run")
    return row


def runs(*, limit: int = 50) -> QuerySet[PayoutRun]:
    """Return runs, newest first, with how many payouts and skips each has and what it comes to."""
    paid = Payout.objects.filter(run=OuterRef("pk")).order_by().values("run")
    skipped = RunSkip.objects.filter(run=OuterRef("pk")).order_by().values("run")
    rows = PayoutRun.objects.annotate(
        payout_count=Subquery(paid.annotate(n=Count("pk")).values("n")),
        amount_minor=Subquery(paid.annotate(sum=Sum("amount_minor")).values("sum")),
        skip_count=Subquery(skipped.annotate(n=Count("pk")).values("n")),
    )
    return rows.order_by("-created_at", "-pk")[:limit]


def payouts_of(*, run: PayoutRun, limit: int = 2000) -> QuerySet[Payout]:
    """Return the run's payouts, the largest first."""
    rows = Payout.objects.filter(run=run).select_related("provider__organization")
    return rows.order_by("-amount_minor", "pk")[:limit]


def skips_of(*, run: PayoutRun, limit: int = 2000) -> list[SkippedRow]:
    """Return who was skipped, the largest balance first."""
    rows = RunSkip.objects.filter(run=run).select_related("provider").order_by("-available_nano", "pk")[:limit]
    return [SkippedRow(skip, reasons.reason(skip.code, skip.detail)) for skip in rows]


def totals(*, run: PayoutRun) -> list[Totals]:
    """Return count and sums of the run's payouts by state."""
    rows = (
        Payout.objects.filter(run=run)
        .values("state")
        .annotate(n=Count("pk"), amount=Sum("amount_minor"), fee=Sum("fee_minor"), stripe_fee=Sum("stripe_fee_minor"))
        .order_by("state")
    )
    return [Totals(row["state"], row["n"], row["amount"], row["fee"], row["stripe_fee"]) for row in rows]


def awaiting(*, run: PayoutRun) -> QuerySet[Payout]:
    """Return the run's payouts that wait for approval, by key."""
    return Payout.objects.filter(run=run, state=PayoutState.RESERVED).select_related("provider").order_by("pk")


def current_hash(*, run: PayoutRun) -> str:
    """Return the hash of exactly what an approval of the run would send now; empty where nothing waits."""
    newest = PayoutAttempt.objects.filter(payout=OuterRef("pk")).order_by("-number").values("params")[:1]
    rows = awaiting(run=run).annotate(params=Subquery(newest)).values_list("public_id", "params")
    hashes = [
        approval.approval_hash(
            payout=payout,
            amount_minor=int(params["amount_minor"]),
            currency=str(params["currency"]),
            destination=str(params["destination"]),
        )
        for payout, params in rows
    ]
    return approval.run_hash(run=run.public_id, payouts=hashes) if hashes else ""


def objection(*, run: PayoutRun, now: datetime) -> str:
    """Return why the run, as it is now, may not be approved on the ground of its last check; empty where it may."""
    return findings.objection(
        findings=findings.from_json(run.findings),
        checked_hash=run.checked_hash,
        current_hash=current_hash(run=run),
        checked_at=run.checked_at,
        now=now,
    )


def approvers_of(*, run: PayoutRun) -> list[str]:
    """Return the addresses of those who have said yes to every payout of the run that waits."""
    waiting = awaiting(run=run).count()
    rows = (
        PayoutApproval.objects.filter(
            payout__run=run, payout__state=PayoutState.RESERVED, approval_hash=F("payout__approval_hash")
        )
        .values("approved_by__email")
        .annotate(n=Count("payout", distinct=True))
        .order_by("approved_by__email")
    )
    return [row["approved_by__email"] for row in rows if row["n"] == waiting]


def unchecked(*, limit: int = 20) -> list[str]:
    """Return runs with payouts that wait for approval which nobody has checked yet, oldest first."""
    waiting = Payout.objects.filter(state=PayoutState.RESERVED, run__isnull=False).values("run")
    rows = PayoutRun.objects.filter(pk__in=waiting, checked_at=None).order_by("created_at", "pk")
    return list(rows.values_list("public_id", flat=True)[:limit])
