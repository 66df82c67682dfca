"""Money: integers of nano units (10⁻⁹ of the currency); minor units only at the payment edge.

Rules from docs/architecture.md: one rounding a request (half up), shares floored, nothing lost in a split.
"""

import re
from typing import NewType

Nano = NewType("Nano", int)

NANO_PER_UNIT = 1_000_000_000
MTOK = 1_000_000
BPS = 10_000
LARGEST_NANO = 2**63 - 1  # what a BIGINT holds: some nine thousand million units of the currency
_NANO_DIGITS = 9
_AMOUNT = re.compile(r"(-)?([0-9]{1,10})(?:\.([0-9]{1,9}))?")

# ISO 4217 exponents that differ from two, as Stripe charges them.
_EXPONENTS = {
    **dict.fromkeys(
        ["bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf"],
        0,
    ),
    **dict.fromkeys(["bhd", "jod", "kwd", "omr", "tnd"], 3),
}

# Currencies that are written with minor units which no bank (payouts) or no card network (purchases) moves.
_WHOLE_PAYOUTS = frozenset({"isk", "huf", "twd", "ugx"})
_WHOLE_PURCHASES = frozenset({"isk", "ugx"})
_THREE_DECIMALS = 3


def exponent(currency: str) -> int:
    """Return how many decimals the currency's minor unit has (2 for usd, 0 for jpy, 3 for kwd)."""
    return _EXPONENTS.get(currency.lower(), 2)


def nano_per_minor(currency: str) -> int:
    """Return how many nano units one minor unit of the currency holds."""
    return int(10 ** (_NANO_DIGITS - exponent(currency)))


def payout_step_minor(currency: str) -> int:
    """Return of what a payout's minor units must be a multiple: whole units, or tens where there are three decimals."""
    return _step(currency, _WHOLE_PAYOUTS)


def purchase_step_minor(currency: str) -> int:
    """Return of what a purchase's minor units must be a multiple."""
    return _step(currency, _WHOLE_PURCHASES)


def _step(currency: str, whole: frozenset[str]) -> int:
    digits = exponent(currency)
    if currency.lower() in whole:
        return int(10**digits)
    return 10 if digits == _THREE_DECIMALS else 1


def nano_from_minor(minor: int, currency: str) -> Nano:
    """Convert minor units exactly."""
    return Nano(minor * nano_per_minor(currency))


def minor_from_nano(nano: int, currency: str) -> tuple[int, Nano]:
    """Split a non-negative amount into whole minor units and the dust that stays behind."""
    if nano < 0:
        raise ValueError(f"cannot take minor units of a negative amount: {nano}")
    minor, dust = divmod(nano, nano_per_minor(currency))
    return minor, Nano(dust)


def split_share(charge: int, share_bps: int) -> tuple[Nano, Nano]:
    """Split a charge into the provider's share (floored, in basis points) and the platform's rest."""
    if charge < 0 or not 0 <= share_bps <= BPS:
        raise ValueError(f"cannot split {charge} by {share_bps} basis points")
    provider = charge * share_bps // BPS
    return Nano(provider), Nano(charge - provider)


def decimal_text(nano: int) -> str:
    """Return the amount as a plain decimal string of the currency's unit, without trailing zeros."""
    sign, magnitude = ("-", -nano) if nano < 0 else ("", nano)
    whole, rest = divmod(magnitude, NANO_PER_UNIT)
    fraction = f"{rest:09d}".rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def nano_from_text(text: str) -> Nano:
    """Parse a plain decimal string such as `0.25`. Raises ValueError for anything else and for what no column holds."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not an amount of money: {text!r}")
    sign, whole, fraction = found.groups(default="")
    nano = int(whole) * NANO_PER_UNIT + int(fraction.ljust(_NANO_DIGITS, "0"))
    if nano > LARGEST_NANO:
        raise ValueError(f"too large an amount of money: {text!r}")
    return Nano(-nano if sign else nano)


def per_token_text(nano_per_mtok: int) -> str:
    """Return the exact price of one token as a plain decimal string of the currency's unit."""
    whole, rest = divmod(nano_per_mtok, MTOK * NANO_PER_UNIT)
    fraction = f"{rest:0{_NANO_DIGITS + 6}d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
