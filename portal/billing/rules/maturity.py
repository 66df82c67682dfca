"""When an earning may be paid out: the provider's hold, longer where the customer's card is young."""

from dataclasses import dataclass
from datetime import datetime, timedelta

NEW_CUSTOMER_FOR = timedelta(days=30)
NEW_CUSTOMER_FACTOR = 2


@dataclass(frozen=True, slots=True)
class CustomerFacts:
    """What is known of the money behind a charge; `first_paid_at` is None where no card was charged for it."""

    is_promo: bool
    first_paid_at: datetime | None


def is_new_money(facts: CustomerFacts, *, at: datetime) -> bool:
    """Tell whether the charge was paid by a card that could still be disputed as stolen."""
    if facts.is_promo or facts.first_paid_at is None:
        return False
    return at < facts.first_paid_at + NEW_CUSTOMER_FOR


def matures_at(*, delivered_at: datetime, hold_days: int, facts: CustomerFacts) -> datetime:
    """Return the later of the provider's hold and the customer's risk tier; an operator's hold of 0 stays 0."""
    factor = NEW_CUSTOMER_FACTOR if is_new_money(facts, at=delivered_at) else 1
    return delivered_at + timedelta(days=hold_days * factor)
