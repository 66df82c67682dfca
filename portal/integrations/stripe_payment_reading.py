"""Turns Stripe's objects about buyers' money into ours."""

from collections.abc import Mapping

from portal.integrations.stripe_fields import (
    Body,
    at,
    ident,
    is_true,
    items,
    number,
    number_or_zero,
    seconds,
    seconds_or_none,
    text,
)
from portal.integrations.stripe_payment_types import Checkout, Dispute, FraudWarning, Payment, Refund, SavedCard
from portal.integrations.stripe_reading import movement


def checkout(body: Body) -> Checkout:
    """Read a Checkout session whose invoice and payment, down to the balance transaction, were expanded."""
    charge = at(body, "payment_intent", "latest_charge")
    booked = at(charge, "balance_transaction")
    return Checkout(
        id=text(body, "id"),
        url=text(body, "url"),
        status=text(body, "status"),
        payment_status=text(body, "payment_status"),
        amount_minor=number(body, "amount_total"),
        currency=text(body, "currency"),
        customer=ident(body, "customer"),
        reference=text(body, "client_reference_id"),
        payment_intent=ident(body, "payment_intent"),
        is_live=is_true(body, "livemode"),
        fee_minor=number(booked, "fee") if isinstance(booked, Mapping) else None,
        fee_currency=text(booked, "currency"),
        failure=text(body, "payment_intent", "last_payment_error", "code"),
        tax_minor=number_or_zero(body, "total_details", "amount_tax"),
        invoice=ident(body, "invoice"),
        invoice_url=text(body, "invoice", "hosted_invoice_url"),
        charge=ident(body, "payment_intent", "latest_charge"),
        card=_charged_card(charge),
        is_three_d_secure=text(charge, "payment_method_details", "card", "three_d_secure", "result") == "authenticated",
        receipt_url=text(charge, "receipt_url"),
        organization=text(body, "metadata", "organization"),
        created_at=seconds_or_none(body, "created"),
    )


def card(body: object) -> SavedCard | None:
    """Read a payment method; None where it is not a card."""
    return _card(ident(body), at(body, "card"))


def _charged_card(charge: object) -> SavedCard | None:
    return _card(text(charge, "payment_method"), at(charge, "payment_method_details", "card"))


def _card(name: str, details: object) -> SavedCard | None:
    if not isinstance(details, Mapping):
        return None
    return SavedCard(
        id=name,
        brand=text(details, "brand"),
        last4=text(details, "last4"),
        exp_month=number(details, "exp_month"),
        exp_year=number(details, "exp_year"),
        fingerprint=text(details, "fingerprint"),
        country=text(details, "country").upper(),
    )


def payment(body: Body) -> Payment:
    """Read a PaymentIntent whose charge was expanded down to the balance transaction."""
    charge = at(body, "latest_charge")
    booked = at(charge, "balance_transaction")
    error = at(body, "last_payment_error")
    return Payment(
        id=text(body, "id"),
        status=text(body, "status"),
        amount_minor=number(body, "amount"),
        received_minor=number_or_zero(body, "amount_received"),
        currency=text(body, "currency"),
        customer=ident(body, "customer"),
        reference=text(body, "metadata", "topup"),
        is_live=is_true(body, "livemode"),
        charge=ident(body, "latest_charge"),
        fee_minor=number(booked, "fee") if isinstance(booked, Mapping) else None,
        fee_currency=text(booked, "currency"),
        failure_code=text(error, "code"),
        decline_code=text(error, "decline_code"),
        card=_charged_card(charge) or card(at(error, "payment_method")),
        created_at=seconds(body, "created"),
        receipt_url=text(charge, "receipt_url"),
        organization=text(body, "metadata", "organization"),
    )


def refund(body: Body) -> Refund:
    """Read a refund."""
    return Refund(
        id=text(body, "id"),
        status=text(body, "status"),
        amount_minor=number(body, "amount"),
        currency=text(body, "currency"),
        charge=ident(body, "charge"),
        reference=text(body, "metadata", "refund"),
        failure=text(body, "failure_reason"),
        created_at=seconds(body, "created"),
        payment=ident(body, "payment_intent"),
        movement=ident(body, "balance_transaction"),
        failure_movement=ident(body, "failure_balance_transaction"),
    )


def dispute(body: Body) -> Dispute:
    """Read a dispute with the balance transactions that it holds."""
    return Dispute(
        id=text(body, "id"),
        status=text(body, "status"),
        reason=text(body, "reason"),
        amount_minor=number(body, "amount"),
        currency=text(body, "currency"),
        charge=ident(body, "charge"),
        payment=ident(body, "payment_intent"),
        movements=tuple(movement(line) for line in items(body, "balance_transactions") if isinstance(line, Mapping)),
        evidence_due_at=seconds_or_none(body, "evidence_details", "due_by"),
        is_live=is_true(body, "livemode"),
        created_at=seconds(body, "created"),
    )


def fraud_warning(body: Body) -> FraudWarning:
    """Read an early fraud warning."""
    return FraudWarning(
        id=text(body, "id"),
        charge=ident(body, "charge"),
        payment=ident(body, "payment_intent"),
        type=text(body, "fraud_type"),
        is_actionable=is_true(body, "actionable"),
        created_at=seconds(body, "created"),
    )
