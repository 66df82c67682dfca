"""How much credit one purchase may buy, in minor units, and what Stripe's answer means for it."""

from dataclasses import dataclass
from typing import Protocol

from portal.core import money

# Units of the currency; where one unit is worth little, so many that Stripe's own minimum is passed.
_LEAST_UNITS = {0: 500, 2: 5, 3: 5}
_SMALL_UNITS = {
    "bif": 15_000,
    "clp": 5_000,
    "cop": 20_000,
    "czk": 100,
    "djf": 900,
    "gnf": 45_000,
    "huf": 2_000,
    "idr": 80_000,
    "inr": 400,
    "isk": 700,
    "kmf": 2_500,
    "krw": 7_000,
    "kzt": 2_500,
    "mga": 23_000,
    "mxn": 100,
    "ngn": 8_000,
    "php": 300,
    "pyg": 40_000,
    "rwf": 7_500,
    "thb": 180,
    "twd": 160,
    "ugx": 19_000,
    "vnd": 130_000,
    "vuv": 600,
    "xaf": 3_000,
    "xof": 3_000,
    "xpf": 600,
}
_MOST_PER_LEAST = 2_000
_MOST_UNITS = {0: 2_000_000, 2: 10_000, 3: 10_000}


def least_minor(currency: str) -> int:
    """Return the smallest purchase."""
    digits = money.exponent(currency)
    return int(_SMALL_UNITS.get(currency.lower(), _LEAST_UNITS[digits]) * 10**digits)


def most_minor(currency: str) -> int:
    """Return the largest purchase."""
    digits = money.exponent(currency)
    if currency.lower() in _SMALL_UNITS:
        return least_minor(currency) * _MOST_PER_LEAST
    return int(_MOST_UNITS[digits] * 10**digits)


class Bought(Protocol):
    """What we asked Stripe to sell."""

    public_id: str
    amount_minor: int
    currency: str
    stripe_customer: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What Stripe says was sold."""

    reference: str
    amount_minor: int
    currency: str
    customer: str
    is_live: bool


def mismatch(bought: Bought, seen: Seen, *, is_live: bool) -> str:
    """Return the first field in which Stripe's session is not the one we asked for, or an empty text."""
    pairs = [
        ("reference", bought.public_id, seen.reference),
        ("amount", bought.amount_minor, seen.amount_minor),
        ("currency", bought.currency, seen.currency),
        ("customer", bought.stripe_customer, seen.customer),
        ("livemode", is_live, seen.is_live),
    ]
    return next((f"{name}: {ours} here, {theirs} at Stripe" for name, ours, theirs in pairs if ours != theirs), "")
