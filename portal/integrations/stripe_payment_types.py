"""What the rooms say to Stripe and hear from it about buyers' money: cards, checkouts, payments, refunds, disputes."""

from dataclasses import dataclass
from datetime import datetime

from portal.integrations.stripe_book_types import Movement


@dataclass(frozen=True, slots=True)
class CustomerOrder:
    """Who buys; every field is frozen in our row, so that a repeated call is the same call."""

    organization: str
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class SavedCard:
    """A card as Stripe describes it; `fingerprint` is the same for one number at every customer of this platform."""

    id: str
    brand: str
    last4: str
    exp_month: int
    exp_year: int
    fingerprint: str
    country: str


@dataclass(frozen=True, slots=True)
class CheckoutOrder:
    """One purchase of credit on Stripe's hosted page; tax, where it is collected, comes on top of the amount."""

    topup: str
    organization: str
    customer: str
    amount_minor: int
    currency: str
    product_name: str
    success_url: str
    cancel_url: str
    saves_card: bool = False
    asks_3ds: bool = False
    collects_tax: bool = False


@dataclass(frozen=True, slots=True)
class Checkout:
    """A Checkout session as Stripe has it now; fee fields are None until Stripe has booked the charge.

    `amount_minor` is what the buyer pays, `tax_minor` the part of it that is tax.
    """

    id: str
    url: str
    status: str
    payment_status: str
    amount_minor: int
    currency: str
    customer: str
    reference: str
    payment_intent: str
    is_live: bool
    fee_minor: int | None = None
    fee_currency: str = ""
    failure: str = ""
    tax_minor: int = 0
    invoice: str = ""
    invoice_url: str = ""
    charge: str = ""
    card: SavedCard | None = None
    is_three_d_secure: bool = False
    receipt_url: str = ""
    organization: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PaymentOrder:
    """One charge of a saved card while its owner is away. Its fields are frozen with the idempotency key."""

    topup: str
    organization: str
    customer: str
    card: str
    amount_minor: int
    currency: str


@dataclass(frozen=True, slots=True)
class Payment:
    """A PaymentIntent as Stripe has it now; `fee_minor` is None until Stripe has booked the charge.

    `reference` is our top-up's public id. `card` is the one that paid, or that was refused last.
    """

    id: str
    status: str
    amount_minor: int
    received_minor: int
    currency: str
    customer: str
    reference: str
    is_live: bool
    charge: str
    fee_minor: int | None
    fee_currency: str
    failure_code: str
    decline_code: str
    card: SavedCard | None
    created_at: datetime
    receipt_url: str = ""
    organization: str = ""


@dataclass(frozen=True, slots=True)
class RefundOrder:
    """One refund of part of a charge. Its fields are frozen with the idempotency key."""

    refund: str
    organization: str
    charge: str
    amount_minor: int
    currency: str


@dataclass(frozen=True, slots=True)
class Refund:
    """A refund as Stripe has it now: `pending`, `requires_action`, `succeeded`, `failed` or `canceled`.

    `reference` is our refund's public id, empty for one that was made at Stripe. `movement` is the balance transaction
    that took the money and `failure_movement` the one that gave it back, each empty until there is one.
    """

    id: str
    status: str
    amount_minor: int
    currency: str
    charge: str
    reference: str
    failure: str
    created_at: datetime
    payment: str = ""
    movement: str = ""
    failure_movement: str = ""


@dataclass(frozen=True, slots=True)
class DisputeEvidence:
    """What we can say for ourselves in a dispute; plain text, 20,000 characters a field at most."""

    customer_name: str
    customer_email: str
    product_description: str
    service_date: str
    access_log: str
    customer_ip: str = ""
    refund_policy: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A dispute as Stripe has it now; `movements` are the balance transactions that took the money or gave it back."""

    id: str
    status: str
    reason: str
    amount_minor: int
    currency: str
    charge: str
    payment: str
    movements: tuple[Movement, ...]
    evidence_due_at: datetime | None
    is_live: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FraudWarning:
    """A card network's warning that a charge was probably made with a stolen card."""

    id: str
    charge: str
    payment: str
    type: str
    is_actionable: bool
    created_at: datetime
