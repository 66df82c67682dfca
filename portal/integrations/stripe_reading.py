"""Turns Stripe's objects about providers' money and the platform's own books into ours."""

from collections.abc import Mapping, Sequence

from portal.integrations.stripe_book_types import Balance, EventDestination, Movement, Platform, WebhookEndpoint
from portal.integrations.stripe_fields import Body, at, ident, is_true, items, moment, names, number, seconds, text
from portal.integrations.stripe_types import Account, BankPayout, Requirement, Transfer


def account(body: Body, *, bank_fingerprint: str = "") -> Account:
    """Read a v2 account with its recipient configuration and requirements."""
    capabilities = at(body, "configuration", "recipient", "capabilities", "stripe_balance")
    details = items(capabilities, "stripe_transfers", "status_details")
    detail = details[0] if details else None
    return Account(
        id=text(body, "id"),
        is_closed=is_true(body, "closed"),
        is_live=is_true(body, "livemode"),
        country=text(body, "identity", "country").upper(),
        transfers_status=text(capabilities, "stripe_transfers", "status"),
        transfers_code=text(detail, "code"),
        transfers_resolution=text(detail, "resolution"),
        bank_payouts_status=text(capabilities, "payouts", "status"),
        requirements=tuple(_requirement(entry) for entry in items(body, "requirements", "entries")),
        due_at=moment(text(body, "requirements", "summary", "minimum_deadline", "time")),
        currency=text(body, "defaults", "currency"),
        bank_fingerprint=bank_fingerprint,
    )


def _requirement(entry: object) -> Requirement:
    return Requirement(
        description=text(entry, "description"),
        awaiting=text(entry, "awaiting_action_from"),
        deadline_status=text(entry, "minimum_deadline", "status"),
    )


def bank_fingerprint(banks: Sequence[Body]) -> str:
    """Return the fingerprint of the bank account that is paid, empty where none was named."""
    chosen = [bank for bank in banks if is_true(bank, "default_for_currency")] or list(banks)
    return text(chosen[0], "fingerprint") if chosen else ""


def transfer(body: object) -> Transfer:
    """Read a transfer."""
    return Transfer(
        id=text(body, "id"),
        amount_minor=number(body, "amount"),
        reversed_minor=number(body, "amount_reversed"),
        currency=text(body, "currency"),
        destination=ident(body, "destination"),
        group=text(body, "transfer_group"),
        is_live=is_true(body, "livemode"),
        created_at=seconds(body, "created"),
        reference=text(body, "metadata", "payout"),
        provider=text(body, "metadata", "provider"),
    )


def bank_payout(body: Body, *, carried: Sequence[Body]) -> BankPayout:
    """Read a connected account's payout and the balance transactions that it carried, their sources expanded."""
    transfers = (ident(line, "source", "source_transfer") for line in carried)
    returned = (ident(line, "source") for line in carried if text(line, "type") == "payout_failure")
    return BankPayout(
        id=text(body, "id"),
        status=text(body, "status"),
        amount_minor=number(body, "amount"),
        currency=text(body, "currency"),
        arrives_at=seconds(body, "arrival_date"),
        failure=text(body, "failure_code"),
        made_at=seconds(body, "created"),
        transfers=tuple(transfer for transfer in transfers if transfer),
        repeats=tuple(payout for payout in returned if payout),
    )


def balances(body: Body) -> list[Balance]:
    """Read a balance, one line a currency."""
    amounts: dict[str, dict[str, int]] = {}
    for kind in ("available", "pending"):
        for line in items(body, kind):
            amounts.setdefault(text(line, "currency"), {})[kind] = number(line, "amount")
    return [
        Balance(currency=currency, available_minor=found.get("available", 0), pending_minor=found.get("pending", 0))
        for currency, found in sorted(amounts.items())
    ]


_RELATED = ("payment_intent", "charge", "transfer", "source_transfer")


def movement(body: Body) -> Movement:
    """Read one balance transaction, and what its source names where that was expanded."""
    named = (ident(body, "source", name) for name in _RELATED)
    return Movement(
        id=text(body, "id"),
        type=text(body, "type"),
        amount_minor=number(body, "amount"),
        fee_minor=number(body, "fee"),
        net_minor=number(body, "net"),
        currency=text(body, "currency"),
        source=ident(body, "source"),
        created_at=seconds(body, "created"),
        related=tuple(name for name in named if name),
    )


def platform(body: Body, *, settings: Body) -> Platform:
    """Read the operator's own account and its balance settings."""
    payouts = at(settings, "payments", "payouts")
    kept = at(payouts, "minimum_balance_by_currency")
    return Platform(
        id=text(body, "id"),
        country=text(body, "country").upper(),
        default_currency=text(body, "default_currency"),
        charges_enabled=is_true(body, "charges_enabled"),
        payouts_enabled=is_true(body, "payouts_enabled"),
        payout_interval=text(payouts, "schedule", "interval"),
        minimum_balance_minor={str(name): int(kept[name]) for name in kept} if isinstance(kept, Mapping) else {},
    )


def webhook_endpoint(body: Body) -> WebhookEndpoint:
    """Read a webhook endpoint; one for connected accounts names the Connect application."""
    return WebhookEndpoint(
        id=text(body, "id"),
        url=text(body, "url"),
        events=names(body, "enabled_events"),
        api_version=text(body, "api_version"),
        is_enabled=text(body, "status") == "enabled",
        is_connect=bool(text(body, "application")),
    )


def event_destination(body: Body) -> EventDestination:
    """Read an event destination with its URL included."""
    return EventDestination(
        id=text(body, "id"),
        url=text(body, "webhook_endpoint", "url"),
        events=names(body, "enabled_events"),
        payload=text(body, "event_payload"),
        is_enabled=text(body, "status") == "enabled",
    )
