"""The one way a refund changes its state, and the ledger entries that go with the moves."""

from dataclasses import dataclass
from datetime import datetime

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.models import LedgerAccount, Refund, RefundAttempt, RefundOrigin, RefundState, TopUp
from portal.billing.rules import refunds as rules
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.selectors import refunds as selectors
from portal.billing.services import incoming, ledger, templates
from portal.billing.services.incoming import Money, Source
from portal.core import money
from portal.integrations import bus

LONGEST_REASON = 240
_MOVED = (Kind.CUSTOMER_CREDIT, Kind.CUSTOMER_RECEIVABLE, Kind.REFUND_CLEARING)


@dataclass(frozen=True, slots=True)
class Wish:
    """How much is to go back, who wants it, and where the refund begins."""

    amount_minor: int
    origin: RefundOrigin
    state: RefundState
    note: str = ""


def set_aside(*, topup: TopUp, wish: Wish, actor: Actor, now: datetime) -> Refund:
    """Write the row of a refund of a locked purchase and take its money aside; what is no longer there is owed."""
    amount_minor = wish.amount_minor
    tax_minor = rules.tax_part(selectors.purchase_of(topup=topup), amount=amount_minor)
    refund = Refund(
        topup=topup,
        organization=topup.organization,
        charge=topup.charge,
        amount_minor=amount_minor,
        tax_minor=tax_minor,
        currency=topup.currency,
        origin=wish.origin,
        note=wish.note[:LONGEST_REASON],
        state=wish.state,
        created_at=now,
        changed_at=now,
    )
    net = money.nano_from_minor(amount_minor - tax_minor, topup.currency)
    refund.debt_nano = net - min(net, max(0, balances.free_of(lock_accounts(refund)[Kind.CUSTOMER_CREDIT])))
    refund.save(force_insert=True)
    owner = topup.organization.public_id
    transfers = templates.refund_reserved(
        organization=owner,
        amount=money.nano_from_minor(amount_minor, topup.currency),
        tax=money.nano_from_minor(tax_minor, topup.currency),
        debt=refund.debt_nano,
        currency=topup.currency,
    )
    _post(refund, "refund_reserved", transfers, actor, now)
    _record(refund, f"refund.{wish.state.value}", before="", actor=actor, now=now)
    bus.announce("leases", str(topup.organization_id))
    return refund


def move(refund: Refund, after: str, *, reason: str = "", actor: Actor = SYSTEM_ACTOR, now: datetime) -> None:
    """Move the locked refund by the table and record it. Raises RefundMoveRefused."""
    before = refund.state
    rules.require_move(before=before, after=after)
    refund.state, refund.state_reason, refund.changed_at = after, reason[:LONGEST_REASON], now
    refund.save()
    _record(refund, f"refund.{after}", before=before, actor=actor, now=now)


def book_sent(refund: Refund, *, now: datetime) -> None:
    """Book that the money has left Stripe's balance, once."""
    if not refund.is_sent:
        amount = money.nano_from_minor(refund.amount_minor, refund.currency)
        owner = refund.organization.public_id
        transfers = templates.refund_sent(organization=owner, amount=amount, currency=refund.currency)
        _post(refund, "refund_sent", transfers, SYSTEM_ACTOR, now)
        refund.is_sent = True


def book_given_up(refund: Refund, *, actor: Actor = SYSTEM_ACTOR, now: datetime) -> None:
    """Book that the money did not go: what left Stripe's balance is back, debt is paid and the rest is credit again."""
    amount = money.nano_from_minor(refund.amount_minor, refund.currency)
    tax = money.nano_from_minor(refund.tax_minor, refund.currency)
    owner = refund.organization.public_id
    lock_accounts(refund)
    if refund.is_sent and not refund.is_returned:
        returned = templates.refund_returned(organization=owner, amount=amount, currency=refund.currency)
        _post(refund, "refund_returned", returned, actor, now)
        refund.is_returned = True
    incoming.book(
        organization=refund.organization,
        money=Money(net_nano=amount - tax, tax_nano=tax, currency=refund.currency, into=Kind.REFUND_CLEARING),
        source=Source(
            kind="refund_failed", key=f"refund_failed:{refund.public_id}", type="refund", id=refund.public_id
        ),
        actor=actor,
        now=now,
    )


def add_attempt(refund: Refund, *, number: int, now: datetime) -> RefundAttempt:
    """Freeze the parameters under a key of their own."""
    return RefundAttempt.objects.create(
        refund=refund,
        number=number,
        idempotency_key=f"refund:{refund.public_id}:{number}",
        params={
            "refund": refund.public_id,
            "organization": refund.organization.public_id,
            "charge": refund.charge,
            "amount_minor": refund.amount_minor,
            "currency": refund.currency,
        },
        created_at=now,
    )


def lock_accounts(refund: Refund) -> dict[str, LedgerAccount]:
    """Lock all accounts of the customer that a refund may move, in their order, and return them by kind."""
    owner = refund.organization.public_id
    ledger.accounts([(kind, owner) for kind in _MOVED], currency=refund.currency)
    ids = LedgerAccount.objects.filter(owner=owner).values_list("pk", flat=True)
    return {row.kind: row for row in locks.accounts(list(ids)).values()}


def _post(refund: Refund, kind: str, transfers: list[ledger.Transfer], actor: Actor, now: datetime) -> None:
    ledger.post(
        kind=kind,
        key=f"{kind}:{refund.public_id}",
        source_type="refund",
        source_id=refund.public_id,
        transfers=transfers,
        actor=actor,
        now=now,
    )


def _record(refund: Refund, event: str, *, before: str, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=refund.public_id,
        now=now,
        organization=refund.organization.public_id,
        detail={
            "before": before,
            "reason": refund.state_reason,
            "amount_minor": refund.amount_minor,
            "currency": refund.currency,
            "topup": refund.topup.public_id,
            "origin": refund.origin,
        },
    )
