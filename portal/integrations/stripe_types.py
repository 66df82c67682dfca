"""What the rooms say to Stripe and hear from it, without a word of the vendor's SDK."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CustomerOrder:
    """Who buys; every field is frozen in our row, so that a repeated call is the same call."""

    organization: str
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class CheckoutOrder:
    """One purchase of credit on Stripe's hosted page."""

    topup: str
    organization: str
    customer: str
    amount_minor: int
    currency: str
    product_name: str
    success_url: str
    cancel_url: str


@dataclass(frozen=True, slots=True)
class Checkout:
    """A Checkout session as Stripe has it now; fee fields are None until Stripe has booked the charge."""

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


@dataclass(frozen=True, slots=True)
class AccountOrder:
    """A new account that only receives transfers."""

    provider: str
    display_name: str
    contact_email: str
    country: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something Stripe wants before or while the account works."""

    description: str
    awaiting: str
    deadline_status: str


@dataclass(frozen=True, slots=True)
class Account:
    """A provider's account as Stripe has it now."""

    id: str
    is_closed: bool
    is_live: bool
    country: str
    transfers_status: str
    transfers_code: str
    transfers_resolution: str
    bank_payouts_status: str
    requirements: tuple[Requirement, ...] = ()
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TransferOrder:
    """One transfer to a provider's account. Its fields are frozen with the idempotency key."""

    amount_minor: int
    currency: str
    destination: str
    group: str
    payout: str
    provider: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer as Stripe has it now."""

    id: str
    amount_minor: int
    reversed_minor: int
    currency: str
    destination: str
    group: str
    is_live: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class BankPayout:
    """A payout from a connected account to its bank, and the transfers that it carried."""

    id: str
    status: str
    amount_minor: int
    currency: str
    arrives_at: datetime
    failure: str
    transfers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """What lies at Stripe in one currency."""

    currency: str
    available_minor: int
    pending_minor: int


@dataclass(frozen=True, slots=True)
class Movement:
    """One balance transaction: a line of Stripe's own books."""

    id: str
    type: str
    amount_minor: int
    fee_minor: int
    net_minor: int
    currency: str
    source: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Platform:
    """The operator's own Stripe account, as far as this software depends on it."""

    id: str
    country: str
    default_currency: str
    charges_enabled: bool
    payouts_enabled: bool
    payout_interval: str
    minimum_balance_minor: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """A verified event: what changed, never how it looks. `account` is empty for the platform's own."""

    id: str
    type: str
    object_id: str
    account: str
    is_live: bool
    created_at: datetime


class Payments(Protocol):
    """Everything this software asks of Stripe. Every write carries a key made from our own row.

    Raises PaymentRejected, InsufficientFunds, PaymentRateLimited or PaymentOutcomeUnknown.
    """

    def create_customer(self, *, key: str, order: CustomerOrder) -> str:
        """Create the customer and return its id."""

    def create_checkout(self, *, key: str, order: CheckoutOrder) -> Checkout:
        """Open a hosted Checkout page."""

    def checkout(self, *, session: str) -> Checkout:
        """Return the session with its payment and fee."""

    def create_account(self, *, key: str, order: AccountOrder) -> Account:
        """Create a provider's account."""

    def account(self, *, account: str) -> Account:
        """Return the account."""

    def create_onboarding_link(self, *, key: str, account: str, return_url: str, refresh_url: str) -> str:
        """Return the URL of a single-use hosted onboarding page."""

    def create_transfer(self, *, key: str, order: TransferOrder) -> Transfer:
        """Move money from the platform's balance to the account's."""

    def transfer(self, *, transfer: str) -> Transfer:
        """Return the transfer."""

    def transfers_of(self, *, group: str) -> list[Transfer]:
        """Return every transfer that carries this group."""

    def bank_payout(self, *, account: str, payout: str) -> BankPayout:
        """Return a connected account's payout to its bank."""

    def balances(self, *, account: str = "") -> list[Balance]:
        """Return the platform's balance, or a connected account's."""

    def movements(self, *, since: datetime) -> list[Movement]:
        """Return the platform's balance transactions since then, oldest first."""

    def events(self, *, since: datetime, types: tuple[str, ...]) -> list[tuple[Event, bytes]]:
        """Return the platform's events of these types since then, v1 and v2, each with its body."""

    def platform(self) -> Platform:
        """Return the operator's own account."""
