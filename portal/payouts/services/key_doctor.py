"""Asks Stripe for each thing that this pool will need, so that a key without a permission is found before money moves.

Writes are asked for objects that do not exist: a key that may write is told so, and nothing can happen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from django.conf import settings

from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError, PaymentOutcomeUnknown, PaymentRateLimited, PermissionMissing
from portal.integrations.stripe_types import (
    CheckoutOrder,
    CustomerOrder,
    DisputeEvidence,
    PaymentOrder,
    Payments,
    RefundOrder,
    TransferOrder,
)
from portal.payouts.services.doctor import Finding

_NOTHING = "poolhouse_doctor"
_RECENT = timedelta(minutes=1)
_FIX = "open the key in Stripe's dashboard under Developers, API keys, and give it this permission"


@dataclass(frozen=True, slots=True)
class Probe:
    """One permission: its name, what needs it, and a call that nothing but the permission lets through."""

    resource: str
    needed_for: str
    ask: Callable[[Payments, datetime], object]


_READS = (
    Probe("balance.read", "what can be paid out", lambda door, now: door.balances()),
    Probe(
        "balance_transaction.read", "the ledger's check", lambda door, now: list(door.movements(since=now - _RECENT))
    ),
    Probe("checkout.read", "purchases", lambda door, now: next(door.checkouts_since(since=now - _RECENT), None)),
    Probe("payment_intent.read", "purchases", lambda door, now: next(door.payments_since(since=now - _RECENT), None)),
    Probe("payment_method.read", "saved cards", lambda door, now: door.saved_cards(customer=f"cus_{_NOTHING}")),
    Probe("charge.read", "refunds", lambda door, now: next(door.refunds_since(since=now - _RECENT), None)),
    Probe("dispute.read", "disputes", lambda door, now: next(door.disputes_since(since=now - _RECENT), None)),
    Probe("radar.read", "warnings of stolen cards", lambda door, now: door.fraud_warning(warning=f"issfr_{_NOTHING}")),
    Probe("transfer.read", "payouts", lambda door, now: next(door.transfers_since(since=now - _RECENT), None)),
    Probe(
        "event.read", "webhooks that were lost", lambda door, now: next(door.events_since(since=now - _RECENT), None)
    ),
    Probe("webhook.read", "this check", lambda door, now: door.webhook_endpoints()),
    Probe("event_destination.read", "this check", lambda door, now: door.event_destinations()),
    Probe("account.read", "providers' accounts", lambda door, now: door.account(account=f"acct_{_NOTHING}")),
    Probe(
        "external_account.read",
        "holding payouts when a provider's bank account changes",
        lambda door, now: door.bank_fingerprint(account=f"acct_{_NOTHING}"),
    ),
    Probe(
        "payout.read",
        "what providers' banks got",
        lambda door, now: door.bank_payout(account=f"acct_{_NOTHING}", payout=f"po_{_NOTHING}"),
    ),
)
_WRITES = (
    Probe("customer.write", "purchases", lambda door, now: door.create_customer(key=_key(), order=_customer())),
    Probe("payment_method.write", "saved cards", lambda door, now: door.forget_card(key=_key(), card=f"pm_{_NOTHING}")),
    Probe("account_link.write", "taking providers in", lambda door, now: _link(door)),
    Probe(
        "login_link.write",
        "providers' way to their dashboard",
        lambda door, now: door.login_link(account=f"acct_{_NOTHING}"),
    ),
    Probe("checkout.write", "purchases", lambda door, now: door.create_checkout(key=_key(), order=_checkout())),
    Probe("payment_intent.write", "automatic top-ups", lambda door, now: door.charge_card(key=_key(), order=_charge())),
    Probe("charge.write", "refunds", lambda door, now: door.create_refund(key=_key(), order=_refund())),
    Probe(
        "dispute.write",
        "evidence in disputes",
        lambda door, now: door.submit_evidence(key=_key(), dispute=f"dp_{_NOTHING}", evidence=_evidence()),
    ),
    Probe("transfer.write", "payouts", lambda door, now: door.create_transfer(key=_key(), order=_transfer())),
)


def examine(*, now: datetime) -> Iterator[Finding]:
    """Yield a finding for each permission that the key lacks, one of all where it lacks none. Nothing is changed."""
    try:
        door = stripe.payments()
    except PaymentError:
        return
    missing = 0
    for probe in (*_READS, *_WRITES):
        finding = _ask(door, probe, now)
        if finding is not None:
            missing += 1
            yield finding
    if not missing:
        detail = (
            f"the key may do all {len(_READS) + len(_WRITES)} things it is asked for; making an account is not asked"
        )
        yield Finding("permissions", "ok", detail)


def _ask(door: Payments, probe: Probe, now: datetime) -> Finding | None:
    name = f"permission_{probe.resource.replace('.', '_')}"
    try:
        probe.ask(door, now)
    except PermissionMissing as error:
        return Finding(name, "fail", f"needed for {probe.needed_for}", _FIX, cause=error.message)
    except (PaymentOutcomeUnknown, PaymentRateLimited) as error:
        fix = "run this again in a minute"
        return Finding(name, "warn", f"Stripe did not say: {error.stripe_code or error.code}", fix, cause=error.message)
    except PaymentError:
        return None  # refused for what it is about, which does not exist: the permission is there
    return None


def _key() -> str:
    return f"doctor:{uuid4()}"


def _customer() -> CustomerOrder:
    # Stripe makes a customer of everybody but of one whose address is none.
    return CustomerOrder(_NOTHING, "doctor", "not an address")


def _link(door: Payments) -> str:
    here = settings.PUBLIC_URL
    return door.create_onboarding_link(key=_key(), account=f"acct_{_NOTHING}", return_url=here, refresh_url=here)


def _checkout() -> CheckoutOrder:
    return CheckoutOrder(
        topup=_NOTHING,
        organization=_NOTHING,
        customer=f"cus_{_NOTHING}",
        amount_minor=1_000,
        currency=settings.CURRENCY,
        product_name="doctor",
        success_url=settings.PUBLIC_URL,
        cancel_url=settings.PUBLIC_URL,
    )


def _charge() -> PaymentOrder:
    return PaymentOrder(
        topup=_NOTHING,
        organization=_NOTHING,
        customer=f"cus_{_NOTHING}",
        card=f"pm_{_NOTHING}",
        amount_minor=1_000,
        currency=settings.CURRENCY,
    )


def _refund() -> RefundOrder:
    return RefundOrder(
        refund=_NOTHING,
        organization=_NOTHING,
        charge=f"ch_{_NOTHING}",
        amount_minor=1_000,
        currency=settings.CURRENCY,
    )


def _evidence() -> DisputeEvidence:
    return DisputeEvidence(
        customer_name="doctor", customer_email="", product_description="", service_date="", access_log=""
    )


def _transfer() -> TransferOrder:
    return TransferOrder(
        amount_minor=1_000,
        currency=settings.CURRENCY,
        destination=f"acct_{_NOTHING}",
        group=_NOTHING,
        payout=_NOTHING,
        provider=_NOTHING,
    )
