"""Turns Stripe's objects into ours. Absent fields read as empty: v2 leaves out what was not asked for."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from portal.integrations.stripe_types import Account, Balance, BankPayout, Checkout, Movement, Requirement, Transfer

Body = Mapping[str, object]


def _at(body: object, *path: str) -> object:
    for step in path:
        if not isinstance(body, Mapping):
            return None
        body = body.get(step)
    return body


def _text(body: object, *path: str) -> str:
    value = _at(body, *path)
    return value if isinstance(value, str) else ""


def _number(body: object, *path: str) -> int:
    value = _at(body, *path)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{'.'.join(path)} is not a whole number")
    return value


def _items(body: object, *path: str) -> list[object]:
    value = _at(body, *path)
    return value if isinstance(value, list) else []


def _id(body: object, *path: str) -> str:
    """Return the id of a field that is either the id or, expanded, the object."""
    value = _at(body, *path)
    return value if isinstance(value, str) else _text(value, "id")


def _seconds(body: object, *path: str) -> datetime:
    return datetime.fromtimestamp(_number(body, *path), UTC)


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def checkout(body: Body) -> Checkout:
    """Read a Checkout session whose payment was expanded down to the balance transaction."""
    booked = _at(body, "payment_intent", "latest_charge", "balance_transaction")
    return Checkout(
        id=_text(body, "id"),
        url=_text(body, "url"),
        status=_text(body, "status"),
        payment_status=_text(body, "payment_status"),
        amount_minor=_number(body, "amount_total"),
        currency=_text(body, "currency"),
        customer=_id(body, "customer"),
        reference=_text(body, "client_reference_id"),
        payment_intent=_id(body, "payment_intent"),
        is_live=_at(body, "livemode") is True,
        fee_minor=_number(booked, "fee") if isinstance(booked, Mapping) else None,
        fee_currency=_text(booked, "currency"),
        failure=_text(body, "payment_intent", "last_payment_error", "code"),
    )


def account(body: Body) -> Account:
    """Read a v2 account with its recipient configuration and requirements."""
    capabilities = _at(body, "configuration", "recipient", "capabilities", "stripe_balance")
    details = _items(capabilities, "stripe_transfers", "status_details")
    detail = details[0] if details else None
    return Account(
        id=_text(body, "id"),
        is_closed=_at(body, "closed") is True,
        is_live=_at(body, "livemode") is True,
        country=_text(body, "identity", "country").upper(),
        transfers_status=_text(capabilities, "stripe_transfers", "status"),
        transfers_code=_text(detail, "code"),
        transfers_resolution=_text(detail, "resolution"),
        bank_payouts_status=_text(capabilities, "payouts", "status"),
        requirements=tuple(_requirement(entry) for entry in _items(body, "requirements", "entries")),
        due_at=_moment(_text(body, "requirements", "summary", "minimum_deadline", "time")),
    )


def _requirement(entry: object) -> Requirement:
    return Requirement(
        description=_text(entry, "description"),
        awaiting=_text(entry, "awaiting_action_from"),
        deadline_status=_text(entry, "minimum_deadline", "status"),
    )


def transfer(body: Body) -> Transfer:
    """Read a transfer."""
    return Transfer(
        id=_text(body, "id"),
        amount_minor=_number(body, "amount"),
        reversed_minor=_number(body, "amount_reversed"),
        currency=_text(body, "currency"),
        destination=_id(body, "destination"),
        group=_text(body, "transfer_group"),
        is_live=_at(body, "livemode") is True,
        created_at=_seconds(body, "created"),
    )


def bank_payout(body: Body, *, carried: Sequence[Body]) -> BankPayout:
    """Read a connected account's payout and the balance transactions that it carried, their sources expanded."""
    transfers = (_id(line, "source", "source_transfer") for line in carried)
    return BankPayout(
        id=_text(body, "id"),
        status=_text(body, "status"),
        amount_minor=_number(body, "amount"),
        currency=_text(body, "currency"),
        arrives_at=_seconds(body, "arrival_date"),
        failure=_text(body, "failure_code"),
        transfers=tuple(transfer for transfer in transfers if transfer),
    )


def balances(body: Body) -> list[Balance]:
    """Read a balance, one line a currency."""
    amounts: dict[str, dict[str, int]] = {}
    for kind in ("available", "pending"):
        for line in _items(body, kind):
            amounts.setdefault(_text(line, "currency"), {})[kind] = _number(line, "amount")
    return [
        Balance(currency=currency, available_minor=found.get("available", 0), pending_minor=found.get("pending", 0))
        for currency, found in sorted(amounts.items())
    ]


def movement(body: Body) -> Movement:
    """Read one balance transaction."""
    return Movement(
        id=_text(body, "id"),
        type=_text(body, "type"),
        amount_minor=_number(body, "amount"),
        fee_minor=_number(body, "fee"),
        net_minor=_number(body, "net"),
        currency=_text(body, "currency"),
        source=_id(body, "source"),
        created_at=_seconds(body, "created"),
    )


def minimum_balances(body: Body) -> tuple[str, dict[str, int]]:
    """Read the balance settings: how often the platform is paid out, and what stays behind by currency."""
    payouts = _at(body, "payments", "payouts")
    kept = _at(payouts, "minimum_balance_by_currency")
    amounts = {str(name): int(amount) for name, amount in kept.items()} if isinstance(kept, Mapping) else {}
    return _text(payouts, "schedule", "interval"), amounts
