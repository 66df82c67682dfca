"""Credit for money on the operator's own bank account: entered from the bank's statement, booked by one or two."""

from dataclasses import dataclass
from datetime import date, datetime

from django.conf import settings
from django.db import IntegrityError, transaction

from portal.accounts.models import Organization, User
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import BankTransfer, BankTransferState
from portal.billing.rules import amounts, confirming
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import credit_alerts, credit_templates, incoming, ledger
from portal.billing.services.incoming import Money, Source
from portal.core import money
from portal.core.errors import Conflict, InvalidValue
from portal.integrations import bus

_LARGEST_UNITS = 10_000_000


class ReferenceKnown(Conflict):
    """This bank reference was entered before, for another amount or customer."""

    code = "bank_reference_known"


class TransferMoveRefused(Conflict):
    """The state of the bank transfer does not allow this."""

    code = "bank_transfer_move_refused"


class SecondPersonNeeded(Conflict):
    """Whoever entered a transfer of this size cannot confirm it."""

    code = "second_person_needed"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the bank's statement; `reference` is the bank's own, by which it is booked once."""

    reference: str
    amount_minor: int
    received_on: date
    payer: str


def enter(*, organization: Organization, line: Line, operator: User, actor: Actor, now: datetime) -> BankTransfer:
    """Enter a customer's transfer; book it at once where one person is enough. The same line again is the same row.

    Raises InvalidValue, ReferenceKnown.
    """
    _require_sound(line, now)
    row = BankTransfer(
        organization=organization,
        reference=line.reference.strip(),
        amount_minor=line.amount_minor,
        currency=settings.CURRENCY,
        received_on=line.received_on,
        payer=line.payer.strip(),
        entered_by=operator,
        entered_at=now,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            _record(row, "bank_transfer.entered", actor, now)
            if people_needed(row) == 1:
                _book(row, operator, actor, now)
    except IntegrityError as error:
        if "bank_transfer_reference_once" not in str(error):
            raise
        return _known(organization, line)
    return row


def _known(organization: Organization, line: Line) -> BankTransfer:
    rows = BankTransfer.objects.exclude(state=BankTransferState.REFUSED)
    known = rows.get(reference=line.reference.strip())
    if (known.organization_id, known.amount_minor) != (organization.pk, line.amount_minor):
        raise ReferenceKnown(
            f"{line.reference.strip()} is {known.public_id} already, with another amount or customer", param="reference"
        )
    return known


def people_needed(row: BankTransfer) -> int:
    """Return how many operators must stand for this transfer."""
    return confirming.people_needed(
        amount_minor=row.amount_minor,
        approvers=settings.PAYOUT_APPROVERS,
        second_from_minor=settings.BANK_TRANSFER_SECOND_FROM_MINOR,
    )


def confirm(*, public_id: str, operator: User, actor: Actor, now: datetime) -> BankTransfer:
    """Book an entered transfer; a second call changes nothing.

    Raises NotFound, TransferMoveRefused, SecondPersonNeeded.
    """
    with transaction.atomic():
        row = locks.bank_transfer(public_id)
        if row.state == BankTransferState.BOOKED:
            return row
        _require(row, BankTransferState.ENTERED)
        if people_needed(row) > 1 and row.entered_by_id == operator.pk:
            raise SecondPersonNeeded("you entered this transfer", fix="let another operator confirm it")
        _book(row, operator, actor, now)
    return row


def refuse(*, public_id: str, reason: str, actor: Actor, now: datetime) -> BankTransfer:
    """Throw an entered transfer away; its reference may be entered again. Raises NotFound, TransferMoveRefused."""
    with transaction.atomic():
        row = locks.bank_transfer(public_id)
        _require(row, BankTransferState.ENTERED)
        row.state, row.reason = BankTransferState.REFUSED, reason[:240]
        row.save(update_fields=["state", "reason"])
        _record(row, "bank_transfer.refused", actor, now)
    return row


def reverse(*, public_id: str, reason: str, actor: Actor, now: datetime) -> BankTransfer:
    """Take a booked transfer back by a posting of its own: credit as far as it is free, the rest is owed.

    Raises NotFound, TransferMoveRefused.
    """
    with transaction.atomic():
        row = locks.bank_transfer(public_id)
        if row.state == BankTransferState.REVERSED:
            return row
        _require(row, BankTransferState.BOOKED)
        owner = row.organization.public_id
        credit = ledger.account(Kind.CUSTOMER_CREDIT, owner, currency=row.currency)
        receivable = ledger.account(Kind.CUSTOMER_RECEIVABLE, owner, currency=row.currency)
        locked = locks.accounts([credit.pk, receivable.pk])
        ledger.post(
            kind="bank_credit_reversed",
            key=f"bank-credit-reversed:{row.public_id}",
            source_type="bank_transfer",
            source_id=row.public_id,
            transfers=credit_templates.bank_credit_reversed(
                organization=owner,
                amount=money.nano_from_minor(row.amount_minor, row.currency),
                free=balances.free_of(locked[credit.pk]),
                currency=row.currency,
            ),
            actor=actor,
            now=now,
            note=reason[:240],
        )
        row.state, row.reason = BankTransferState.REVERSED, reason[:240]
        row.save(update_fields=["state", "reason"])
        _record(row, "bank_transfer.reversed", actor, now)
        bus.announce("leases", str(row.organization_id))
    return row


def _book(row: BankTransfer, operator: User, actor: Actor, now: datetime) -> None:
    row.state, row.confirmed_by, row.booked_at = BankTransferState.BOOKED, operator, now
    row.save(update_fields=["state", "confirmed_by", "booked_at"])
    credit_alerts.begin(organization=row.organization, paid_minor=row.amount_minor, currency=row.currency, now=now)
    incoming.book(
        organization=row.organization,
        money=Money(
            net_nano=money.nano_from_minor(row.amount_minor, row.currency),
            currency=row.currency,
            into=Kind.BANK_BALANCE,
        ),
        source=Source(
            kind="bank_credit",
            key=f"bank-credit:{row.public_id}",
            type="bank_transfer",
            id=row.public_id,
            note=f"bank transfer of {row.received_on}",
        ),
        actor=actor,
        now=now,
    )
    _record(row, "bank_transfer.booked", actor, now)


def _require(row: BankTransfer, state: BankTransferState) -> None:
    if row.state != state:
        raise TransferMoveRefused(f"{row.public_id} is {row.state}, not {state}")


def _require_sound(line: Line, now: datetime) -> None:
    if not line.reference.strip():
        raise InvalidValue("write the bank's reference of this line", param="reference")
    if not line.payer.strip():
        raise InvalidValue("write who paid, as the bank names them", param="payer")
    largest = _LARGEST_UNITS * 10 ** money.exponent(settings.CURRENCY)
    if not 0 < line.amount_minor <= largest:
        most = amounts.written_minor(largest, settings.CURRENCY)
        raise InvalidValue(f"An amount is more than nothing and at most {most}.", param="amount")
    if line.received_on > now.date():
        raise InvalidValue("it has not been received yet", param="received_on")


def _record(row: BankTransfer, event: str, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.public_id,
        now=now,
        organization=row.organization.public_id,
        detail={
            "reference": row.reference,
            "amount_minor": row.amount_minor,
            "currency": row.currency,
            "received_on": row.received_on.isoformat(),
            "reason": row.reason,
        },
    )
