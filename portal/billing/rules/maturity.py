"""When an earning may be paid out: the provider's hold, longer where the customer's payments are young or in doubt."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class CustomerFacts:
    """The money behind a charge; `hold_days` is what the customer's tier asks for, 0 where no card was charged."""

    is_promo: bool
    hold_days: int


def matures_at(*, delivered_at: datetime, hold_days: int, facts: CustomerFacts) -> datetime:
    """Return the later of the provider's hold and the customer's; promotional credit cannot be disputed."""
    days = hold_days if facts.is_promo else max(hold_days, facts.hold_days)
    return delivered_at + timedelta(days=days)
