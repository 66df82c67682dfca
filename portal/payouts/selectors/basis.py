"""What a payout is made of, as a document that its provider can compute again from receipts or exported usage."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Q
from poolhouse_common.exports import FORMAT, PAYOUT

from portal.billing.models import EarningMaturity, LedgerTransfer, LedgerTx, UsagePosting
from portal.billing.rules.accounts import Kind, code
from portal.core.money import decimal_text, nano_from_minor
from portal.payouts.models import Payout

_RESERVED = "payout_reserved"
_MATURITY = "maturity"
_LAST = UUID(int=2**128 - 1)


def document(*, payout: Payout) -> dict[str, Any]:
    """Return all that moved the provider's available balance since its last payout was set aside, and what is left.

    A payout that was never set aside itself is told as if it were now.
    """
    provider = payout.provider.public_id
    reserved = LedgerTx.objects.filter(kind=_RESERVED, source_id=payout.public_id).first()
    upto = reserved.pk if reserved else _LAST
    before = _before(provider, upto)
    all_moves = [(tx, amount) for tx, amount in _moves(provider, upto=upto) if reserved is None or tx.pk != reserved.pk]
    opening = sum(amount for tx, amount in all_moves if before and tx.pk <= before.pk)
    moves = [(tx, amount) for tx, amount in all_moves if not before or tx.pk > before.pk]
    sent = int(nano_from_minor(payout.amount_minor, payout.currency))
    earnings = _earnings(provider, [tx.pk for tx, _ in moves if tx.kind == _MATURITY])
    entries = [_entry(tx, amount) for tx, amount in moves if tx.kind != _MATURITY]
    entries += _corrections(provider, moves, earnings)
    return {
        "document": PAYOUT,
        "format": FORMAT,
        "payout": payout.public_id,
        "provider": provider,
        "currency": payout.currency,
        "amount_minor": payout.amount_minor,
        "reserved_at": reserved.created_at.isoformat() if reserved else None,
        "opening": decimal_text(opening),
        "earnings": [{"attempt": name, "earned": decimal_text(nano)} for _, name, nano in earnings],
        "entries": entries,
        "closing": decimal_text(opening + sum(amount for _, amount in moves) - sent),
    }


def _before(provider: str, upto: UUID) -> LedgerTx | None:
    """Return the transaction that set the provider's last payout aside before this one."""
    account = code(Kind.PROVIDER_AVAILABLE, provider)
    rows = LedgerTx.objects.filter(kind=_RESERVED, pk__lt=upto, transfers__debit_account__code=account)
    return rows.order_by("-pk").first()


def _moves(provider: str, *, upto: UUID) -> list[tuple[LedgerTx, int]]:
    """Return each transaction on the available balance up to this one, in order, with what it brought (nano)."""
    account = code(Kind.PROVIDER_AVAILABLE, provider)
    sides = Q(credit_account__code=account) | Q(debit_account__code=account)
    rows = LedgerTransfer.objects.select_related("tx", "credit_account").filter(sides, tx_id__lte=upto)
    sums: dict[UUID, int] = defaultdict(int)
    found: dict[UUID, LedgerTx] = {}
    for row in rows.order_by("tx_id", "seq"):
        found[row.tx_id] = row.tx
        sums[row.tx_id] += row.amount if row.credit_account.code == account else -row.amount
    return [(tx, sums[pk]) for pk, tx in found.items()]


def _earnings(provider: str, maturities: Iterable[UUID]) -> list[tuple[UUID, str, int]]:
    """Return each attempt whose earning these transactions made available: its maturity, its name and nano units."""
    matured = {
        row.tx_id: row.matured_tx_id
        for row in EarningMaturity.objects.filter(provider=provider, matured_tx__in=list(maturities))
        if row.matured_tx_id is not None
    }
    rows = UsagePosting.objects.filter(tx__in=list(matured), provider_nano__gt=0).order_by("request_id", "attempt")
    return [(matured[row.tx_id], f"{row.request_id}/{row.attempt}", row.provider_nano) for row in rows]


def _corrections(
    provider: str, moves: Iterable[tuple[LedgerTx, int]], earnings: Iterable[tuple[UUID, str, int]]
) -> list[dict[str, Any]]:
    """Return what a maturity brought less than its attempts earned: the part in reserve, and earlier claw-backs."""
    earned: dict[UUID, int] = defaultdict(int)
    for maturity, _, nano in earnings:
        earned[maturity] += nano
    found = []
    for tx, amount in moves:
        if tx.kind == _MATURITY:
            kept = _kept(provider, tx)
            gaps = (("reserve_kept", -kept), ("claw_back", amount + kept - earned[tx.pk]))
            found += [_entry(tx, gap) | {"kind": kind} for kind, gap in gaps if gap]
    return found


def _kept(provider: str, tx: LedgerTx) -> int:
    """Return what a maturity put into the provider's reserve."""
    account = code(Kind.PROVIDER_RESERVE, provider)
    return sum(row.amount for row in tx.transfers.filter(credit_account__code=account))


def _entry(tx: LedgerTx, amount: int) -> dict[str, Any]:
    return {"at": tx.created_at.isoformat(), "kind": tx.kind, "tx": str(tx.pk), "amount": decimal_text(amount)}
