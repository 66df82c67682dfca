"""What each type of event makes us look at. A handler gets ids, fetches the object and reconciles our row with it."""

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from portal.billing.selectors import topups as topup_selectors
from portal.billing.services import disputes, fraud_warnings, refund_reading, topups
from portal.core.errors import NotFound
from portal.integrations import stripe
from portal.payouts.selectors import accounts as account_selectors
from portal.payouts.services import accounts, bank
from portal.webhooks.models import StripeEvent

Handler = Callable[[StripeEvent, datetime], None]


class UnknownReference(NotFound):
    """The event names something we do not have yet; it may come, so the event waits."""

    code: ClassVar[str] = "unknown_reference"


class NotBooked(NotFound):
    """Money moved at Stripe that this version does not book; an operator has to."""

    code: ClassVar[str] = "not_booked"


def handle_checkout(event: StripeEvent, now: datetime) -> None:
    """A Checkout session changed."""
    topup_id = topup_selectors.id_of_session(event.object_id)
    if topup_id is None:
        raise UnknownReference(f"no purchase has session {event.object_id}")
    topups.fulfil(topup_id=topup_id, now=now)


def handle_payment(event: StripeEvent, now: datetime) -> None:
    """A payment moved: of a Checkout page, or of a saved card."""
    topup_id = topups.id_of_payment(payment=event.object_id)
    if topup_id is not None:
        topups.fulfil(topup_id=topup_id, now=now)
    elif event.type == "payment_intent.succeeded":
        raise NotBooked(f"payment {event.object_id} pays no purchase of this pool", fix="find out whose it is")


def handle_transfer(event: StripeEvent, now: datetime) -> None:
    """A transfer was taken back, in part or in full."""
    if bank.note_transfer(transfer=event.object_id, now=now) is None:
        raise UnknownReference(f"no payout has transfer {event.object_id}")


def handle_bank_payout(event: StripeEvent, now: datetime) -> None:
    """A provider's bank answered."""
    if not account_selectors.provider_of_account(event.account):
        raise UnknownReference(f"no provider has account {event.account}")
    bank.note_bank_payout(account=event.account, bank_payout=event.object_id, now=now)


def handle_bank_of_account(event: StripeEvent, now: datetime) -> None:
    """A provider named another bank account at Stripe; the event's object is the bank account."""
    provider = account_selectors.provider_of_account(event.account)
    if not provider:
        raise UnknownReference(f"no provider has account {event.account}")
    accounts.refresh(provider_id=provider, now=now)


def handle_account(event: StripeEvent, now: datetime) -> None:
    """A provider's account changed."""
    provider = account_selectors.provider_of_account(event.object_id or event.account)
    if not provider:
        raise UnknownReference(f"no provider has account {event.object_id or event.account}")
    accounts.refresh(provider_id=provider, now=now)


def handle_charge(event: StripeEvent, now: datetime) -> None:
    """A charge was refunded, by us or at Stripe."""
    if not refund_reading.read(charge=event.object_id, now=now):
        raise UnknownReference(f"Stripe lists no refund of {event.object_id}")


def handle_refund(event: StripeEvent, now: datetime) -> None:
    """A refund moved."""
    seen = stripe.payments().refund(refund=event.object_id)
    refund_reading.read(charge=seen.charge, now=now)


def handle_dispute(event: StripeEvent, now: datetime) -> None:
    """A bank contests a payment, took its money, gave it back, or decided."""
    disputes.read(dispute=event.object_id, now=now)


def handle_fraud_warning(event: StripeEvent, now: datetime) -> None:
    """A card network warns of a payment."""
    fraud_warnings.read(warning=event.object_id, now=now)


PLATFORM: dict[str, Handler] = {
    "checkout.session.completed": handle_checkout,
    "checkout.session.async_payment_succeeded": handle_checkout,
    "checkout.session.async_payment_failed": handle_checkout,
    "checkout.session.expired": handle_checkout,
    "payment_intent.succeeded": handle_payment,
    "payment_intent.payment_failed": handle_payment,
    "payment_intent.processing": handle_payment,
    "payment_intent.canceled": handle_payment,
    "transfer.reversed": handle_transfer,
    "charge.refunded": handle_charge,
    "refund.created": handle_refund,
    "refund.updated": handle_refund,
    "refund.failed": handle_refund,
    "charge.dispute.created": handle_dispute,
    "charge.dispute.updated": handle_dispute,
    "charge.dispute.funds_withdrawn": handle_dispute,
    "charge.dispute.funds_reinstated": handle_dispute,
    "charge.dispute.closed": handle_dispute,
    "radar.early_fraud_warning.created": handle_fraud_warning,
    "radar.early_fraud_warning.updated": handle_fraud_warning,
}
CONNECT: dict[str, Handler] = {
    "account.updated": handle_account,
    "account.external_account.created": handle_bank_of_account,
    "account.external_account.updated": handle_bank_of_account,
    "account.external_account.deleted": handle_bank_of_account,
    "payout.created": handle_bank_payout,
    "payout.updated": handle_bank_payout,
    "payout.paid": handle_bank_payout,
    "payout.failed": handle_bank_payout,
    "payout.canceled": handle_bank_payout,
}
EVENTS: dict[str, Handler] = {
    "v2.core.account.updated": handle_account,
    "v2.core.account.closed": handle_account,
    "v2.core.account[defaults].updated": handle_account,
    "v2.core.account[requirements].updated": handle_account,
    "v2.core.account[configuration.recipient].updated": handle_account,
    "v2.core.account[configuration.recipient].capability_status_updated": handle_account,
}
BY_SOURCE: dict[str, dict[str, Handler]] = {"platform": PLATFORM, "connect": CONNECT, "events": EVENTS}
