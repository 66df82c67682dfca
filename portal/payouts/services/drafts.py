"""Who is paid how much in this run, and why someone is not: each payout reserves its money as it is made."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction

from portal.audit.services import Actor
from portal.billing import locks as billing_locks
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import freeze, ledger, netting
from portal.payouts.models import Payout, PayoutRun, PayoutState, RunOrigin, RunSkip
from portal.payouts.rules import approval, reasons
from portal.payouts.rules.fees import Parts
from portal.payouts.rules.reasons import Reason
from portal.payouts.selectors import dues
from portal.payouts.selectors.dues import Candidate
from portal.payouts.services import moves, routes, tax
from portal.payouts.services.routes import Route
from portal.providers.models import Provider

_RESERVED = (Kind.PROVIDER_AVAILABLE, Kind.PAYOUT_CLEARING, Kind.PROVIDER_RECEIVABLE)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A provider who is owed money and is not paid now."""

    provider: Provider
    available_nano: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Due:
    """A provider who would be paid: what is sent, and what of Stripe's fee it bears."""

    candidate: Candidate
    parts: Parts
    route: Route

    @property
    def provider(self) -> Provider:
        """The provider."""
        return self.candidate.provider

    @property
    def amount_minor(self) -> int:
        """What would be sent."""
        return self.parts.sent_minor


@dataclass(slots=True)
class DraftRun:
    """What a run did: the payouts that it reserved, and everyone it skipped with the reason; `run` is its row."""

    payouts: list[Payout] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    run: PayoutRun | None = None


@dataclass(slots=True)
class Preview:
    """What a run would do."""

    due: list[Due] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def preview(*, now: datetime) -> Preview:
    """Say what a run would do, without reserving anything."""
    seen = Preview()
    for candidate in dues.owed():
        found = _examine(candidate, now)
        if isinstance(found, Due):
            seen.due.append(found)
        else:
            seen.skipped.append(_skipped(candidate, found))
    return seen


def draft_payouts(*, now: datetime, actor: Actor, origin: str = RunOrigin.OPERATOR) -> DraftRun:
    """Reserve a payout for everyone who can be paid; a second run finds the open rows and does nothing."""
    return _draft(dues.owed(), actor, origin, now)


def draft_due(*, now: datetime, actor: Actor) -> DraftRun:
    """Reserve a payout for those whose turn it is by the schedule; where nobody can be paid there is no run."""
    candidates = [candidate for candidate in dues.owed() if candidate.is_due(now)]
    if not any(dues.reason(candidate) is None for candidate in candidates):
        return DraftRun()
    return _draft(candidates, actor, RunOrigin.SCHEDULE, now)


def _draft(candidates: list[Candidate], actor: Actor, origin: str, now: datetime) -> DraftRun:
    if not candidates or freeze.is_frozen():
        return DraftRun()
    row = PayoutRun.objects.create(
        origin=origin, currency=settings.CURRENCY, created_at=now, created_by=actor.public_id
    )
    run = DraftRun(run=row)
    for candidate, made in _reserve_each(candidates, row, actor, now):
        if isinstance(made, Payout):
            run.payouts.append(made)
        else:
            run.skipped.append(_skipped(candidate, made))
    _keep(run, row)
    return run


def _reserve_each(
    candidates: list[Candidate], row: PayoutRun, actor: Actor, now: datetime
) -> Iterator[tuple[Candidate, Payout | Reason]]:
    for candidate in candidates:
        found = _examine(candidate, now)
        yield candidate, _reserve(found, row, actor, now) if isinstance(found, Due) else found


def _keep(run: DraftRun, row: PayoutRun) -> None:
    """Keep who was skipped; a run of the schedule that reserved nothing leaves no trace."""
    if row.origin == RunOrigin.SCHEDULE and not run.payouts:
        row.delete()
        run.run = None
        return
    RunSkip.objects.bulk_create(
        RunSkip(
            run=row,
            provider=one.provider,
            code=one.reason.code,
            detail=one.reason.detail[:240],
            available_nano=one.available_nano,
        )
        for one in run.skipped
    )


def _skipped(candidate: Candidate, reason: Reason) -> Skipped:
    return Skipped(candidate.provider, candidate.balance.available_nano, reason)


def _examine(candidate: Candidate, now: datetime) -> Due | Reason:
    """Decide from the provider, its open payouts, its balance and its account at Stripe, in this order."""
    reason = dues.reason(candidate)
    if reason is not None:
        return reason
    route = routes.find(provider=candidate.provider, now=now)
    if isinstance(route, Reason):
        return route
    return Due(candidate, dues.parts_of(candidate, candidate.payable_nano), route)


def _reserve(due: Due, run: PayoutRun, actor: Actor, now: datetime) -> Payout | Reason:
    """Take the money aside under the accounts' locks, in one transaction with the payout and its first attempt."""
    try:
        with transaction.atomic():
            parts = _locked_parts(due, now)
            reason = dues.too_little(due.candidate, parts.sent_minor)
            if reason is not None:
                return reason
            taxed = tax.assess(provider=due.provider, net_minor=parts.sent_minor + parts.borne_minor)
            payout = _new(due, parts, run, taxed.vat_minor, now)
            tax.keep(payout, taxed, now=now)
            moves.post_reserved(payout, actor=actor, now=now)
            moves.add_attempt(payout, number=1, now=now)
            moves.move(payout, PayoutState.RESERVED, actor=actor, now=now)
            return payout
    except IntegrityError as error:
        if "payout_one" not in str(error):
            raise
        return reasons.reason(reasons.OPEN_PAYOUT)


def _locked_parts(due: Due, now: datetime) -> Parts:
    """Lock what the payout moves, take what is owed, and divide what is left."""
    provider = due.provider.public_id
    rows = ledger.accounts([(str(kind), provider) for kind in _RESERVED], currency=settings.CURRENCY)
    locked = billing_locks.accounts(row.pk for row in rows.values())
    available = rows[f"{Kind.PROVIDER_AVAILABLE}:{provider}"]
    netted = netting.net_debt(provider=provider, cause=f"draft:{provider}:{now.isoformat()}", now=now)
    return dues.parts_of(due.candidate, balances.free_of(locked[available.pk]) - netted)


def _new(due: Due, parts: Parts, run: PayoutRun, vat_minor: int, now: datetime) -> Payout:
    last = Payout.objects.filter(provider=due.provider, currency=settings.CURRENCY).exclude(
        state__in=[PayoutState.REJECTED, PayoutState.CANCELED]
    )
    before = last.order_by("-period_end").values_list("period_end", flat=True).first()
    payout = Payout(
        provider=due.provider,
        run=run,
        currency=settings.CURRENCY,
        period_start=before or due.provider.created_at,
        period_end=now,
        amount_minor=parts.sent_minor + vat_minor,
        fee_minor=parts.borne_minor,
        stripe_fee_minor=parts.fee_minor,
        is_final=due.candidate.is_final,
        rail=due.route.rail,
        destination=due.route.destination,
        created_at=now,
        changed_at=now,
    )
    payout.approval_hash = approval.approval_hash(
        payout=payout.public_id,
        amount_minor=payout.amount_minor,
        currency=payout.currency,
        destination=payout.destination,
    )
    payout.save(force_insert=True)
    return payout
