"""Money: integers of nano units (10⁻⁹ of the currency); minor units only at the payment edge.

Rules from docs/architecture.md: one rounding a request (half up), shares floored, nothing lost in a split. They are
written in `poolhouse_common.amounts`, so that whoever checks the books offline computes as the pool does.
"""

from typing import NewType

from poolhouse_common import amounts

Nano = NewType("Nano", int)

NANO_PER_UNIT = amounts.NANO
MTOK = amounts.MTOK
BPS = amounts.BPS
LARGEST_NANO = 2**63 - 1  # what a BIGINT holds: some nine thousand million units of the currency
_NANO_DIGITS = 9

# Currencies that are written with minor units which no bank (payouts) or no card network (purchases) moves.
_WHOLE_PAYOUTS = frozenset({"isk", "huf", "twd", "ugx"})
_WHOLE_PURCHASES = frozenset({"isk", "ugx"})
_THREE_DECIMALS = 3

exponent = amounts.exponent
nano_per_minor = amounts.nano_per_minor
decimal_text = amounts.text


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
    provider = amounts.share(charge, share_bps)
    return Nano(provider), Nano(charge - provider)


def nano_from_text(text: str) -> Nano:
    """Parse a plain decimal string such as `0.25`. Raises ValueError for anything else and for what no column holds."""
    nano = amounts.nano(text)
    if abs(nano) > LARGEST_NANO:
        raise ValueError(f"too large an amount of money: {text!r}")
    return Nano(nano)


def per_token_text(nano_per_mtok: int) -> str:
    """Return the exact price of one token as a plain decimal string of the currency's unit."""
    whole, rest = divmod(nano_per_mtok, MTOK * NANO_PER_UNIT)
    fraction = f"{rest:0{_NANO_DIGITS + 6}d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
