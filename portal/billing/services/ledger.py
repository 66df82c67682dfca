"""The one writer of the ledger: transactions that balance, happen once, and never take an account below its floor."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import F

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.errors import (
    BelowFloor,
    CurrencyMismatch,
    HoldTooSmall,
    InsufficientCredit,
    KeyReused,
    NotReversible,
    UnsoundTransfer,
)
from portal.billing.models.ledger import LedgerAccount, LedgerTransfer, LedgerTx
from portal.billing.rules import accounts as chart
from portal.billing.rules import journal
from portal.billing.rules import periods as rules
from portal.billing.selectors import balances, periods

_ADD = """
UPDATE billing_ledgeraccount AS account
   SET debits = account.debits + part.debits, credits = account.credits + part.credits
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS part (id, debits, credits)
 WHERE account.id = part.id
"""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Debit one account and credit another by `amount` nano units."""

    debit: LedgerAccount
    credit: LedgerAccount
    amount: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One transaction to be written; with a known `key` the stored one stands."""

    kind: str
    key: str
    source_type: str
    source_id: str
    transfers: Sequence[Transfer]
    effective_at: datetime
    note: str = ""


def account(kind: str, owner: str = "", *, currency: str) -> LedgerAccount:
    """Return the account, opening it on first use. Raises CurrencyMismatch; ValueError for an unknown kind."""
    return accounts([(kind, owner)], currency=currency)[chart.code(kind, owner)]


def accounts(wanted: Iterable[tuple[str, str]], *, currency: str) -> dict[str, LedgerAccount]:
    """Return accounts by code, opening those that are new, in code order. Raises as `account` does."""
    codes = {chart.code(kind, owner): (kind, owner) for kind, owner in sorted(wanted)}
    found = {row.code: row for row in LedgerAccount.objects.filter(code__in=codes)}
    if len(found) < len(codes):
        fresh = [_fresh(kind, owner, currency) for code, (kind, owner) in codes.items() if code not in found]
        LedgerAccount.objects.bulk_create(fresh, ignore_conflicts=True)
        found = {row.code: row for row in LedgerAccount.objects.filter(code__in=codes)}
    for row in found.values():
        if row.currency != currency:
            raise CurrencyMismatch(f"{row.code} is kept in {row.currency}, not {currency}", param="currency")
    return found


def post(  # noqa: PLR0913  these are the parts of one journal entry
    *,
    kind: str,
    key: str,
    source_type: str,
    source_id: str,
    transfers: Sequence[Transfer],
    actor: Actor,
    now: datetime,
    effective_at: datetime | None = None,
    note: str = "",
) -> LedgerTx:
    """Write one transaction; with a known `key` return the stored one and change nothing.

    What would take effect in a closed period takes effect now. Raises KeyReused, BelowFloor, UnsoundTransfer.
    """
    entry = Entry(kind, key, source_type, source_id, transfers, effective_at or now, note)
    return post_all([entry], actor=actor, now=now)[0]


def post_all(entries: Sequence[Entry], *, actor: Actor, now: datetime) -> list[LedgerTx]:
    """Write these transactions, all or none, in as many statements as one takes; return them as they are stored.

    A known key changes nothing, as in `post`. Accounts must stay above their floors once all of them are in.
    Raises as `post` does.
    """
    made = [
        LedgerTx(
            kind=entry.kind,
            idempotency_key=entry.key,
            source_type=entry.source_type,
            source_id=entry.source_id,
            effective_at=entry.effective_at,
            created_at=now,
            actor=actor.public_id,
            note=entry.note,
        )
        for entry in entries
    ]
    return _write([(tx, entry.transfers) for tx, entry in zip(made, entries, strict=True)])


def reverse(*, tx: LedgerTx, reason: str, actor: Actor, now: datetime) -> LedgerTx:
    """Undo a transaction by its mirror image, which names it; a second call returns the first reversal.

    Raises NotReversible for a reversal, BelowFloor where the money has moved on.
    """
    if tx.reverses_id is not None:
        raise NotReversible(f"{tx} is itself a reversal", fix="post the transaction that should stand")
    stored = tx.transfers.select_related("debit_account", "credit_account").order_by("seq")
    mirrored = [Transfer(debit=row.credit_account, credit=row.debit_account, amount=row.amount) for row in stored]
    mirror = LedgerTx(
        kind=f"{tx.kind}_reversal",
        idempotency_key=f"reverse:{tx.pk}",
        source_type="ledger_tx",
        source_id=str(tx.pk),
        effective_at=now,
        created_at=now,
        actor=actor.public_id,
        note=reason,
        reverses=tx,
    )
    with transaction.atomic():
        audit.record(
            actor=actor,
            event="ledger.reversed",
            subject=str(tx.pk),
            now=now,
            detail={"reason": reason, "kind": tx.kind},
        )
        return _write([(mirror, mirrored)])[0]


def hold(account_id: int, amount: int) -> None:
    """Set `amount` aside on the account, under its lock. Raises InsufficientCredit, UnsoundTransfer."""
    _require_positive(amount)
    with transaction.atomic():
        locked = locks.accounts([account_id])[account_id]
        free = balances.free_of(locked)
        if free < amount:
            raise InsufficientCredit(f"{locked.code} has {free} nano free of holds, {amount} were asked for")
        LedgerAccount.objects.filter(pk=account_id).update(held=F("held") + amount)


def unhold(account_id: int, amount: int) -> None:
    """Release `amount` of what is held on the account. Raises HoldTooSmall, UnsoundTransfer."""
    _require_positive(amount)
    with transaction.atomic():
        locked = locks.accounts([account_id])[account_id]
        if locked.held < amount:
            raise HoldTooSmall(f"{locked.code} holds {locked.held} nano, {amount} were to be released")
        LedgerAccount.objects.filter(pk=account_id).update(held=F("held") - amount)


def balance(account: LedgerAccount) -> int:
    """Return the account's balance on its normal side, as the database has it now."""
    return balances.balance(account_id=account.pk)


def _fresh(kind: str, owner: str, currency: str) -> LedgerAccount:
    rule = chart.KINDS[chart.Kind(kind)]
    return LedgerAccount(
        code=chart.code(kind, owner),
        kind=kind,
        owner=owner,
        currency=currency,
        is_debit_normal=rule.is_debit_normal,
        has_floor=rule.has_floor,
        keeps_totals=rule.keeps_totals,
    )


def _write(entries: Sequence[tuple[LedgerTx, Sequence[Transfer]]]) -> list[LedgerTx]:
    for tx, transfers in entries:
        _require_sound(transfers)
        tx.content_hash = journal.content_hash(
            kind=tx.kind,
            source_type=tx.source_type,
            source_id=tx.source_id,
            legs=[(part.debit.code, part.credit.code, part.amount, part.debit.currency) for part in transfers],
        )
    with transaction.atomic():
        locks.open_periods()
        until = periods.closed_until()
        for tx, _ in entries:
            tx.effective_at = rules.open_at(tx.effective_at, closed_until=until, now=tx.created_at)
        # In the order of the keys: two runs that bring the same events wait for each other and never deadlock.
        fresh = sorted((tx for tx, _ in entries), key=lambda tx: tx.idempotency_key)
        LedgerTx.objects.bulk_create(fresh, ignore_conflicts=True)
        keys = [tx.idempotency_key for tx in fresh]
        stored = {row.idempotency_key: row for row in LedgerTx.objects.filter(idempotency_key__in=keys)}
        _move([(tx, transfers) for tx, transfers in entries if stored[tx.idempotency_key].pk == tx.pk])
        return [_same(tx, stored[tx.idempotency_key]) for tx, _ in entries]


def _same(tx: LedgerTx, stored: LedgerTx) -> LedgerTx:
    if stored.content_hash != tx.content_hash:
        raise KeyReused(f"{tx.idempotency_key} already stands for another event ({stored.kind} {stored.source_id})")
    return stored


def _move(entries: Sequence[tuple[LedgerTx, Sequence[Transfer]]]) -> None:
    debits: dict[int, int] = defaultdict(int)
    credits_: dict[int, int] = defaultdict(int)
    for _, transfers in entries:
        for part in transfers:
            debits[part.debit.pk] += part.amount
            credits_[part.credit.pk] += part.amount
    locked = locks.accounts({*debits, *credits_})
    for row in locked.values():
        _require_above_floor(row, debits=debits[row.pk], credits_=credits_[row.pk])
    with connection.cursor() as cursor:
        ids = sorted(locked)
        cursor.execute(_ADD, [ids, [debits[pk] for pk in ids], [credits_[pk] for pk in ids]])
    LedgerTransfer.objects.bulk_create(
        LedgerTransfer(
            tx=tx,
            seq=seq,
            effective_at=tx.effective_at,
            debit_account=part.debit,
            credit_account=part.credit,
            amount=part.amount,
            currency=part.debit.currency,
        )
        for tx, transfers in entries
        for seq, part in enumerate(transfers)
    )


def _require_above_floor(locked: LedgerAccount, *, debits: int, credits_: int) -> None:
    """Raise BelowFloor where the moves would take what is not there; the table's own constraint says the same."""
    change = debits - credits_ if locked.is_debit_normal else credits_ - debits
    if locked.has_floor and balances.free_of(locked) + change < 0:
        raise BelowFloor(
            f"{locked.code} has {balances.balance_of(locked)} nano of which {locked.held} are held: "
            f"debit {debits}, credit {credits_} would take it below its floor"
        )


def _require_sound(transfers: Sequence[Transfer]) -> None:
    if not transfers:
        raise UnsoundTransfer("a transaction needs at least one transfer", param="transfers")
    for part in transfers:
        _require_positive(part.amount)
        if part.debit.pk == part.credit.pk:
            raise UnsoundTransfer(f"{part.debit.code} is on both sides", param="transfers")
        if part.debit.currency != part.credit.currency:
            raise UnsoundTransfer(f"{part.debit.code} and {part.credit.code} differ in currency", param="transfers")


def _require_positive(amount: int) -> None:
    if amount <= 0:
        raise UnsoundTransfer(f"an amount must be positive, not {amount}", param="amount")
