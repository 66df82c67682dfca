"""Corrections of what a provider is owed: proposed with reason and evidence, seen before, booked by enough operators.

A claw-back takes what is held and what has not matured first, then what is available; the rest is owed and netted from
what comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from portal.accounts.models import Organization, User
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import (
    AdjustmentKind,
    AdjustmentReason,
    AdjustmentState,
    EarningMaturity,
    HeldEarning,
    LedgerTx,
    ProviderAdjustment,
    ReservedEarning,
)
from portal.billing.rules import clawback
from portal.billing.rules.accounts import Kind
from portal.billing.rules.clawback import Sources, Split
from portal.billing.selectors import balances
from portal.billing.services import adjustment_news, ledger, netting, templates
from portal.core.errors import Conflict, Forbidden, InvalidValue, NotFound
from portal.core.money import LARGEST_NANO
from portal.providers.models import Provider, ProviderKind

_Row = TypeVar("_Row", HeldEarning, EarningMaturity, ReservedEarning)
_TAKEN_FROM = (
    Kind.PROVIDER_HELD,
    Kind.PROVIDER_PENDING,
    Kind.PROVIDER_RESERVE,
    Kind.PROVIDER_AVAILABLE,
    Kind.PROVIDER_RECEIVABLE,
)


class NotProposed(Conflict):
    """The adjustment is booked or withdrawn already."""

    code: ClassVar[str] = "adjustment_not_proposed"


class NeedsAnother(Forbidden):
    """Two people are needed, and the one who proposed an adjustment is not the second."""

    code: ClassVar[str] = "adjustment_needs_another"


class HouseHasNoEarnings(Conflict):
    """The operator's own nodes earn nothing that could be corrected."""

    code: ClassVar[str] = "house_has_no_earnings"


@dataclass(frozen=True, slots=True)
class AdjustmentOrder:
    """What is wanted; `customer` gets what is taken, the pool where it is None."""

    provider: Provider
    kind: AdjustmentKind
    reason: AdjustmentReason
    amount_nano: int
    note: str
    evidence: str = ""
    customer: Organization | None = None


def preview(*, provider: Provider, amount_nano: int) -> Split:
    """Say from where a claw-back of the amount would take it now."""
    seen = balances.provider_balance(provider=provider.public_id)
    sources = Sources(seen.held_nano, seen.pending_nano, seen.reserve_nano, seen.available_nano)
    return clawback.split(amount_nano, sources)


def propose(*, order: AdjustmentOrder, proposed_by: User, actor: Actor, now: datetime) -> ProviderAdjustment:
    """Propose a correction; where one operator is enough it is booked at once.

    Raises InvalidValue, HouseHasNoEarnings, BelowFloor.
    """
    _require_sound(order)
    with transaction.atomic():
        row = ProviderAdjustment.objects.create(
            provider=order.provider,
            kind=order.kind,
            reason=order.reason,
            note=order.note.strip()[:240],
            evidence=order.evidence.strip(),
            amount_nano=order.amount_nano,
            currency=settings.CURRENCY,
            customer=order.customer,
            proposed_by=proposed_by,
            proposed_at=now,
        )
        _record(row, "provider_adjustment.proposed", actor, now)
        if settings.PAYOUT_APPROVERS == 1:
            _book(row, proposed_by, actor, now)
    return row


def approve(*, public_id: str, approver: User, actor: Actor, now: datetime) -> ProviderAdjustment:
    """Book a proposed correction. Raises NotFound, NotProposed, NeedsAnother, BelowFloor."""
    with transaction.atomic():
        row = _locked(public_id)
        if approver.pk == row.proposed_by_id and settings.PAYOUT_APPROVERS > 1:
            raise NeedsAnother("another operator has to approve what you proposed")
        _book(row, approver, actor, now)
    return row


def withdraw(*, public_id: str, by: User, actor: Actor, now: datetime) -> ProviderAdjustment:
    """Give a proposed correction up. Raises NotFound, NotProposed."""
    with transaction.atomic():
        row = _locked(public_id)
        row.state, row.decided_by, row.decided_at = AdjustmentState.WITHDRAWN, by, now
        row.save(update_fields=["state", "decided_by", "decided_at"])
        _record(row, "provider_adjustment.withdrawn", actor, now)
    return row


def _require_sound(order: AdjustmentOrder) -> None:
    if not 0 < order.amount_nano <= LARGEST_NANO:
        raise InvalidValue("give an amount above zero", param="amount")
    if not order.note.strip():
        raise InvalidValue("say why; the provider will read it", param="note")
    if order.provider.kind == ProviderKind.HOUSE:
        raise HouseHasNoEarnings("house nodes earn nothing")
    if order.kind == AdjustmentKind.CREDIT and order.customer is not None:
        raise InvalidValue("a credit names no customer: the pool pays it", param="customer")


def _locked(public_id: str) -> ProviderAdjustment:
    row = (
        ProviderAdjustment.objects.select_for_update(of=("self",))
        .select_related("provider__organization", "customer")
        .filter(public_id=public_id)
        .first()
    )
    if row is None:
        raise NotFound("there is no such adjustment", param="adjustment")
    if row.state != AdjustmentState.PROPOSED:
        raise NotProposed(f"{public_id} is {row.state}")
    return row


def _book(row: ProviderAdjustment, by: User, actor: Actor, now: datetime) -> None:
    row.tx = _book_clawback(row, actor, now) if row.kind == AdjustmentKind.CLAWBACK else _book_credit(row, actor, now)
    row.state, row.decided_by, row.decided_at = AdjustmentState.BOOKED, by, now
    row.save()
    _record(row, "provider_adjustment.booked", actor, now)
    adjustment_news.tell(row, now=now)


def _book_credit(row: ProviderAdjustment, actor: Actor, now: datetime) -> LedgerTx:
    provider = row.provider.public_id
    tx = _post(
        row,
        templates.provider_credit(provider=provider, amount=row.amount_nano, currency=row.currency),
        actor,
        now,
    )
    netting.net_debt(provider=provider, cause=str(tx.pk), now=now)
    return tx


def _book_clawback(row: ProviderAdjustment, actor: Actor, now: datetime) -> LedgerTx:
    """Take the parts under the locks of the rows that they come from, then of all accounts, in one order."""
    provider, customer = row.provider.public_id, row.customer.public_id if row.customer else ""
    held = list(_newest_first(HeldEarning.objects.filter(provider=provider, ended_tx=None), "-held_at"))
    early = list(_newest_first(EarningMaturity.objects.filter(provider=provider, matured_tx=None), "-matures_at"))
    kept = list(_newest_first(ReservedEarning.objects.filter(provider=provider, released_tx=None), "-release_at"))
    sources = Sources(
        held_nano=sum(each.left_nano for each in held),
        pending_nano=sum(each.left_nano for each in early),
        reserve_nano=sum(each.left_nano for each in kept),
        available_nano=_locked_available(provider, customer, row.currency),
    )
    split = clawback.split(row.amount_nano, sources)
    row.from_held_nano, row.from_pending_nano = split.held_nano, split.pending_nano
    row.from_reserve_nano, row.from_available_nano = split.reserve_nano, split.available_nano
    row.to_debt_nano = split.debt_nano
    transfers = templates.provider_clawback(provider=provider, split=split, customer=customer, currency=row.currency)
    tx = _post(row, transfers, actor, now)
    _mark(held, split.held_nano, "ended_tx", tx)
    _mark(early, split.pending_nano, "matured_tx", tx)
    _mark(kept, split.reserve_nano, "released_tx", tx)
    return tx


def _newest_first(rows: QuerySet[_Row], order: str) -> QuerySet[_Row]:
    return rows.select_for_update(of=("self",)).order_by(order, "-pk")


def _locked_available(provider: str, customer: str, currency: str) -> int:
    wanted = [(str(kind), provider) for kind in _TAKEN_FROM]
    if customer:
        wanted.append((str(Kind.CUSTOMER_CREDIT), customer))
    accounts = ledger.accounts(wanted, currency=currency)
    locked = locks.accounts(each.pk for each in accounts.values())
    available = accounts[f"{Kind.PROVIDER_AVAILABLE}:{provider}"]
    return balances.free_of(locked[available.pk])


def _mark(rows: Sequence[_Row], amount_nano: int, ended_by: str, tx: LedgerTx) -> None:
    """Note on each row what was taken of it; one of which nothing is left has ended by the claw-back."""
    taken = clawback.shares(amount_nano, [row.left_nano for row in rows])
    for row, part in zip(rows, taken, strict=True):
        if part:
            row.clawed_nano += part
            if not row.left_nano:
                setattr(row, ended_by, tx)
            row.save(update_fields=["clawed_nano", ended_by])


def _post(row: ProviderAdjustment, transfers: list[ledger.Transfer], actor: Actor, now: datetime) -> LedgerTx:
    return ledger.post(
        kind=f"provider_{row.kind}",
        key=f"adjustment:{row.public_id}",
        source_type="adjustment",
        source_id=row.public_id,
        transfers=transfers,
        actor=actor,
        now=now,
        note=row.note,
    )


def _record(row: ProviderAdjustment, event: str, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.public_id,
        now=now,
        organization=row.provider.organization.public_id,
        detail={
            "provider": row.provider.public_id,
            "kind": row.kind,
            "reason": row.reason,
            "note": row.note,
            "evidence": row.evidence,
            "amount_nano": row.amount_nano,
            "customer": row.customer.public_id if row.customer else "",
        },
    )
