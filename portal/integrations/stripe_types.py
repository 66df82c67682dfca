"""What the rooms say to Stripe and hear from it, without a word of the vendor's SDK."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from portal.integrations.stripe_book_types import (
    Balance,
    Event,
    EventDestination,
    Movement,
    Platform,
    WebhookEndpoint,
)
from portal.integrations.stripe_payment_types import (
    Checkout,
    CheckoutOrder,
    CustomerOrder,
    Dispute,
    DisputeEvidence,
    FraudWarning,
    Payment,
    PaymentOrder,
    Refund,
    RefundOrder,
    SavedCard,
)

__all__ = [
    "Account",
    "AccountOrder",
    "Balance",
    "BankPayout",
    "Checkout",
    "CheckoutOrder",
    "CustomerOrder",
    "Dispute",
    "DisputeEvidence",
    "Event",
    "EventDestination",
    "FraudWarning",
    "Movement",
    "Payment",
    "PaymentOrder",
    "Payments",
    "Platform",
    "Refund",
    "RefundOrder",
    "Requirement",
    "SavedCard",
    "Transfer",
    "TransferOrder",
    "WebhookEndpoint",
]


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
    """A provider's account as Stripe has it now.

    `currency` is what its bank takes; `bank_fingerprint` is the same for one bank account at every provider. Both are
    empty until the owner has named a bank.
    """

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
    currency: str = ""
    bank_fingerprint: str = ""


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
    """A transfer as Stripe has it now; `reference` is our payout's public id."""

    id: str
    amount_minor: int
    reversed_minor: int
    currency: str
    destination: str
    group: str
    is_live: bool
    created_at: datetime
    reference: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class BankPayout:
    """A payout from a connected account to its bank, and the transfers that it carried.

    `repeats` names earlier bank payouts that failed and whose money it carries again.
    """

    id: str
    status: str
    amount_minor: int
    currency: str
    arrives_at: datetime
    failure: str
    made_at: datetime
    transfers: tuple[str, ...]
    repeats: tuple[str, ...] = ()


class Payments(Protocol):
    """Everything this software asks of Stripe. Every write carries a key made from our own row.

    Raises PaymentRejected, CardDeclined, InsufficientFunds, PaymentRateLimited or PaymentOutcomeUnknown.
    """

    def create_customer(self, *, key: str, order: CustomerOrder) -> str:
        """Create the customer and return its id."""

    def create_checkout(self, *, key: str, order: CheckoutOrder) -> Checkout:
        """Open a hosted Checkout page."""

    def checkout(self, *, session: str) -> Checkout:
        """Return the session with its payment, fee, tax and invoice."""

    def checkouts_since(self, *, since: datetime) -> Iterator[Checkout]:
        """Return the sessions that were opened since then, newest first."""

    def saved_cards(self, *, customer: str) -> list[SavedCard]:
        """Return the cards that this customer has saved, newest first."""

    def forget_card(self, *, key: str, card: str) -> None:
        """Take the card off its customer, for good."""

    def charge_card(self, *, key: str, order: PaymentOrder) -> Payment:
        """Charge a saved card while its owner is away. Raises CardDeclined."""

    def payment(self, *, payment: str) -> Payment:
        """Return the payment with its charge and fee."""

    def payments_of(self, *, customer: str, since: datetime) -> list[Payment]:
        """Return this customer's payments since then, newest first."""

    def payments_since(self, *, since: datetime) -> Iterator[Payment]:
        """Return every payment since then, newest first."""

    def create_refund(self, *, key: str, order: RefundOrder) -> Refund:
        """Give part of a charge back."""

    def refund(self, *, refund: str) -> Refund:
        """Return the refund."""

    def refunds_of(self, *, charge: str) -> list[Refund]:
        """Return every refund of a charge, those made at Stripe included."""

    def refunds_since(self, *, since: datetime) -> Iterator[Refund]:
        """Return every refund since then, newest first."""

    def dispute(self, *, dispute: str) -> Dispute:
        """Return the dispute with the money it moved."""

    def disputes_since(self, *, since: datetime) -> Iterator[Dispute]:
        """Return every dispute since then, newest first."""

    def submit_evidence(self, *, key: str, dispute: str, evidence: DisputeEvidence) -> Dispute:
        """Answer a dispute; Stripe takes one answer only."""

    def fraud_warning(self, *, warning: str) -> FraudWarning:
        """Return the early fraud warning."""

    def create_account(self, *, key: str, order: AccountOrder) -> Account:
        """Create a provider's account."""

    def account(self, *, account: str) -> Account:
        """Return the account."""

    def bank_fingerprint(self, *, account: str) -> str:
        """Return what names the account's bank account, empty where it has none."""

    def create_onboarding_link(self, *, key: str, account: str, return_url: str, refresh_url: str) -> str:
        """Return the URL of a single-use hosted onboarding page."""

    def login_link(self, *, account: str) -> str:
        """Return the URL of a single-use way into the provider's own dashboard at Stripe."""

    def create_transfer(self, *, key: str, order: TransferOrder) -> Transfer:
        """Move money from the platform's balance to the account's."""

    def transfer(self, *, transfer: str) -> Transfer:
        """Return the transfer."""

    def transfers_of(self, *, group: str) -> list[Transfer]:
        """Return every transfer that carries this group."""

    def transfers_since(self, *, since: datetime) -> Iterator[Transfer]:
        """Return every transfer since then, newest first."""

    def reverse_transfer(self, *, key: str, transfer: str, amount_minor: int) -> Transfer:
        """Take part of a transfer back, as far as the account still has the money; return the transfer."""

    def bank_payout(self, *, account: str, payout: str) -> BankPayout:
        """Return a connected account's payout to its bank."""

    def balances(self, *, account: str = "") -> list[Balance]:
        """Return the platform's balance, or a connected account's."""

    def movements(self, *, since: datetime) -> list[Movement]:
        """Return the platform's balance transactions since then, oldest first."""

    def events_since(
        self, *, since: datetime, types: tuple[str, ...] = (), account: str = ""
    ) -> Iterator[tuple[Event, bytes]]:
        """Return snapshot events since then, of the platform or of a connected account, each with its body."""

    def thin_events_since(self, *, since: datetime, types: tuple[str, ...] = ()) -> Iterator[tuple[Event, bytes]]:
        """Return thin events since then, each with its body."""

    def webhook_endpoints(self) -> list[WebhookEndpoint]:
        """Return where Stripe sends snapshot events."""

    def event_destinations(self) -> list[EventDestination]:
        """Return where Stripe sends events of its second API."""

    def platform(self) -> Platform:
        """Return the operator's own account."""
