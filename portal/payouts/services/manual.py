"""Payouts that an operator makes at the pool's own bank: ordered by one, confirmed by another, perhaps returned."""

from datetime import date, datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.models import User
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.services import freeze
from portal.core.errors import InvalidValue
from portal.payouts import locks
from portal.payouts.errors import NotAnOperator, PayoutMoveRefused, PayoutNotSendable, SecondOperatorNeeded
from portal.payouts.models import (
    BankAccount,
    BankAccountState,
    ManualTransfer,
    Payout,
    PayoutAttempt,
    PayoutState,
    Rail,
)
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import approvals, bank_accounts, destinations, moves

_TWO = 2


def mark_sent(
    *, payout_public_id: str, reference: str, ordered_on: date, operator: User, actor: Actor, now: datetime
) -> Payout:
    """Note that the bank has the order, under its reference. Nothing is booked until it is confirmed.

    Raises NotFound, NotAnOperator, InvalidValue, PayoutMoveRefused, PayoutNotSendable, DestinationHeld.
    """
    _require_operator(operator)
    _require_day(ordered_on, now)
    if not reference.strip():
        raise InvalidValue("give the bank's reference, so that the transfer can be found again", param="reference")
    with transaction.atomic():
        if freeze.is_frozen():
            raise PayoutNotSendable("payments rest while a backup is being recovered", fix=freeze.FIX)
        payout = _locked(payout_public_id, PayoutState.APPROVED)
        destinations.require_no_hold(provider=payout.provider, now=now)
        _require_as_approved(payout)
        ManualTransfer.objects.create(
            payout=payout, reference=reference.strip()[:140], ordered_on=ordered_on, sent_by=operator, sent_at=now
        )
        attempt = selectors.attempt_of(payout)
        PayoutAttempt.objects.filter(pk=attempt.pk).update(claimed_at=now, first_sent_at=now)
        moves.move(payout, PayoutState.AT_BANK, reason=f"reference {reference.strip()}", actor=actor, now=now)
    return payout


def take_back(*, payout_public_id: str, reason: str, operator: User, actor: Actor, now: datetime) -> Payout:
    """Say that the bank did not get the order after all; the payout is approved again. Raises as `mark_sent` does."""
    _require_operator(operator)
    with transaction.atomic():
        payout = _locked(payout_public_id, PayoutState.AT_BANK)
        moves.move(payout, PayoutState.APPROVED, reason=_given(reason), actor=actor, now=now)
        ManualTransfer.objects.filter(payout=payout).delete()
    return payout


def confirm(*, payout_public_id: str, paid_on: date, operator: User, actor: Actor, now: datetime) -> Payout:
    """Confirm from the bank's statement that it has paid, and book it. With two approvers it is another's word.

    Raises NotFound, NotAnOperator, InvalidValue, PayoutMoveRefused, SecondOperatorNeeded.
    """
    _require_operator(operator)
    _require_day(paid_on, now)
    with transaction.atomic():
        payout = _locked(payout_public_id, PayoutState.AT_BANK)
        row = ManualTransfer.objects.select_for_update().get(payout=payout)
        if settings.PAYOUT_APPROVERS >= _TWO and row.sent_by_id == operator.pk:
            raise SecondOperatorNeeded("you have sent it yourself", fix="let another operator confirm it")
        row.paid_on, row.confirmed_by, row.confirmed_at = paid_on, operator, now
        row.save(update_fields=["paid_on", "confirmed_by", "confirmed_at"])
        payout.sent_at = now
        moves.post_paid_by_bank(payout, actor=actor, now=now)
        moves.move(payout, PayoutState.TRANSFERRED, actor=actor, now=now)
        _finish(payout, "transferred", now)
    return payout


def refused(*, payout_public_id: str, reason: str, operator: User, actor: Actor, now: datetime) -> Payout:
    """Note that the pool's bank has not carried the order out: the money is available again. Raises as `confirm`."""
    _require_operator(operator)
    with transaction.atomic():
        payout = _locked(payout_public_id, PayoutState.AT_BANK)
        moves.post_released(payout, actor=actor, now=now)
        moves.move(payout, PayoutState.REJECTED, reason=_given(reason), actor=actor, now=now)
        _finish(payout, "rejected", now, message=reason)
    return payout


def returned(
    *, payout_public_id: str, reason: str, returned_on: date, operator: User, actor: Actor, now: datetime
) -> Payout:
    """Book that the provider's bank sent a paid transfer back; its details are not paid to again until checked anew.

    Raises NotFound, NotAnOperator, InvalidValue, PayoutMoveRefused.
    """
    _require_operator(operator)
    _require_day(returned_on, now)
    with transaction.atomic():
        payout = _locked(payout_public_id, PayoutState.TRANSFERRED)
        row = ManualTransfer.objects.select_for_update().get(payout=payout)
        row.returned_on, row.returned_reason = returned_on, _given(reason)
        row.save(update_fields=["returned_on", "returned_reason"])
        payout.reversed_minor = payout.amount_minor
        payout.save(update_fields=["reversed_minor"])
        moves.post_returned_by_bank(payout, actor=actor, now=now)
        moves.move(payout, PayoutState.REVERSED, reason=f"returned: {_given(reason)}", actor=actor, now=now)
        _stop_paying_to(payout, reason, actor, now)
    return payout


def bank_account_of(payout: Payout) -> BankAccount | None:
    """Return the details that the payout goes to; None for a payout by Stripe."""
    return BankAccount.objects.filter(public_id=payout.destination).first() if payout.rail == Rail.MANUAL else None


def _stop_paying_to(payout: Payout, reason: str, actor: Actor, now: datetime) -> None:
    row = bank_account_of(payout)
    if row is not None and row.state == BankAccountState.VERIFIED:
        words = f"a transfer came back: {reason.strip()}"
        bank_accounts.refuse(bank_account=row.public_id, reason=words, actor=actor, now=now)


def _locked(public_id: str, needed: str) -> Payout:
    found = selectors.payout(public_id)
    payout = locks.payout(found.pk)
    if payout.rail != Rail.MANUAL:
        raise PayoutMoveRefused(f"{public_id} goes by Stripe", fix="let it be sent, or cancel it")
    if payout.state != needed:
        raise PayoutMoveRefused(f"{public_id} is {payout.get_state_display().lower()}, not {needed.replace('_', ' ')}")
    return payout


def _require_as_approved(payout: Payout) -> None:
    if not approvals.has_enough(payout):
        raise PayoutNotSendable(f"{payout.public_id} changed after it was approved", fix="approve it again")
    row = bank_account_of(payout)
    if row is None or row.state != BankAccountState.VERIFIED:
        raise PayoutNotSendable(
            "its bank details are no longer good", fix="cancel the payout; the next run uses the present ones"
        )


def _require_operator(person: User) -> None:
    if not person.is_operator:
        raise NotAnOperator("only operators make bank transfers")


def _require_day(day: date, now: datetime) -> None:
    if day > now.date():
        raise InvalidValue("the day lies in the future", param="day")


def _given(reason: str) -> str:
    if not reason.strip():
        raise InvalidValue("give the reason; the provider will read it", param="reason")
    return reason.strip()[:200]


def _finish(payout: Payout, result: str, now: datetime, *, message: str = "") -> None:
    attempt = selectors.attempt_of(payout)
    PayoutAttempt.objects.filter(pk=attempt.pk).update(result=result, finished_at=now, error_message=message[:400])


def record_export(*, payouts: list[Payout], kind: str, actor: Actor, now: datetime) -> None:
    """Note who took whole account numbers out of the system, and for which payouts."""
    for payout in payouts:
        audit.record(
            actor=actor,
            event="payout.bank_file",
            subject=payout.public_id,
            now=now,
            organization=payout.provider.organization.public_id,
            detail={"kind": kind, "destination": payout.destination},
        )
